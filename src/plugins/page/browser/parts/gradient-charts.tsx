/**
 * Numbers of a job by gradient step: those that tell whether it is sound at first, every other where it is asked for.
 */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { query, setQuery } from '../data/address.js'
import { spansDecades } from '../data/curves.js'
import { metricWords } from '../data/words.js'
import { Chart } from './chart.js'

/** Shown at first, with the end that is the better one. */
const CHARTS: Readonly<Record<string, 'high' | 'low' | null>> = {
  loss: 'low',
  'rewards/margins': 'high',
  'rewards/accuracies': 'high',
  entropy: null,
  kl_div: null,
  importance_ratio_p99: null,
  grad_norm: null,
  clipped_token_fraction: null,
}
/** Every other number of a gradient step is a chart of its own, where it is asked for. */
const isCounter = (key: string): boolean => /^(step|epoch|num_|progress)/.test(key)

export function GradientCharts({ events }: { readonly events: readonly TrainingEvent[] }): JSX.Element | null {
  const steps = useMemo(() => events.filter(({ type }) => type === 'gradient_step'), [events])
  const positions = useMemo(() => steps.map((_, i) => i + 1), [steps])
  const others = Object.entries(steps.at(-1)?.data ?? {})
    .filter(([key, value]) => typeof value === 'number' && !isCounter(key) && !(key in CHARTS))
    .map(([key]) => key)
    .sort()
  const chosen = others.filter((key) => query.value.getAll('k').includes(key))
  const charts = useMemo(
    () =>
      [...Object.keys(CHARTS), ...chosen]
        .map((key) => ({
          key,
          title: metricWords(key),
          wants: CHARTS[key] ?? null,
          lines: [
            {
              name: metricWords(key),
              values: steps.map(({ data }) => (typeof data[key] === 'number' ? data[key] : null)),
            },
          ],
        }))
        .filter(({ lines }) => lines.some(({ values }) => values.some((value) => value !== null))),
    [steps, chosen.join()],
  )
  if (charts.length === 0) return null
  return (
    <section class="stack" aria-labelledby="gradient-steps">
      <h2 id="gradient-steps">Gradient steps</h2>
      {others.length > 0 && (
        <details class="picker">
          <summary>More numbers</summary>
          <fieldset class="menu">
            <legend class="visually-hidden">More numbers</legend>
            {others.map((key) => (
              <label key={key}>
                <input
                  type="checkbox"
                  checked={chosen.includes(key)}
                  onChange={() =>
                    setQuery({ k: chosen.includes(key) ? chosen.filter((name) => name !== key) : [...chosen, key] })
                  }
                />
                <span title={key}>{metricWords(key)}</span>
              </label>
            ))}
          </fieldset>
        </details>
      )}
      <div class="charts small-charts">
        {charts.map(({ key, title, wants, lines }) => (
          <Chart
            key={key}
            title={title}
            positions={positions}
            unit="gradient step"
            steps={positions}
            lines={lines}
            wants={wants}
            smoothing={0}
            beginsLogarithmic={lines.every(({ values }) => spansDecades(values))}
            height={130}
            group="job"
          />
        ))}
      </div>
    </section>
  )
}
