/**
 * Charts of a loop: rewards of training and held-out rows, a line a grader, length of answers, errors by kind, time by phase.
 */

import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { go } from '../../data/address.js'
import { below, type LoopMetrics, type Values } from '../../data/loops.js'
import { wordsOf } from '../../data/words.js'
import { Chart } from '../chart.js'
import { type ChartLine, LOOP_STEP } from '../plot-options.js'

/** Lines of one chart: more are no picture. The table has all. */
const MOST_LINES = 12

interface Drawn {
  readonly title: string
  readonly lines: readonly ChartLine[]
  readonly wants: 'high' | 'low' | null
}

export function LoopCharts({ metrics }: { readonly metrics: LoopMetrics }): JSX.Element {
  const { steps, job_ids: jobs } = metrics
  const charts = useMemo(() => drawnOf(metrics), [metrics])
  return (
    <section class="charts" aria-label="Curves">
      {charts.map(({ title, lines, wants }) => (
        <Chart
          key={title}
          title={title}
          positions={steps}
          unit={LOOP_STEP}
          steps={steps}
          lines={lines}
          wants={wants}
          smoothing={0}
          // evaluations are fewer than steps
          isJoined
          group="loop"
          onPick={(index) => {
            const job = jobs[index]
            if (job != null) go(`/jobs/${job}`)
          }}
        />
      ))}
    </section>
  )
}

function drawnOf({ series }: LoopMetrics): readonly Drawn[] {
  const of = (key: string): Values => series[key] ?? []
  const hasAny = (values: Values): boolean => values.some((value) => value !== null)
  const lines = (all: readonly (readonly [name: string, values: Values])[]): readonly ChartLine[] =>
    all.filter(([, values]) => hasAny(values)).map(([name, values]) => ({ name, values }))
  const named = (prefix: string, suffix = ''): readonly ChartLine[] =>
    lines(
      below(series, prefix)
        .filter((name) => name.endsWith(suffix))
        .slice(0, MOST_LINES)
        .map((name) => [name.slice(0, name.length - suffix.length), of(prefix + name)]),
    )
  // a step in which a kind did not happen has no number of it
  const counted = (all: readonly ChartLine[]): readonly ChartLine[] =>
    all.map(({ name, values }) => ({ name: wordsOf(name), values: values.map((value) => value ?? 0) }))
  const charts: readonly Drawn[] = [
    {
      title: 'Reward',
      wants: 'high',
      lines: lines([
        ['training', of('train_reward')],
        ['held out', of('valid_reward')],
      ]),
    },
    { title: 'Graders, training', wants: 'high', lines: named('graders/', '/train') },
    { title: 'Graders, held out', wants: 'high', lines: named('graders/', '/valid') },
    { title: 'Length of answers, tokens', wants: null, lines: lines([['tokens', of('completion_tokens')]]) },
    { title: 'Errors by kind', wants: 'low', lines: counted(named('errors/')) },
    { title: 'Seconds by phase', wants: null, lines: named('seconds/').filter(({ name }) => name !== 'step') },
  ]
  return charts.filter((chart) => chart.lines.length > 0)
}
