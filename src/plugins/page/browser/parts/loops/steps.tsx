/**
 * Steps of a loop as a table, the newest first, each with its job: the numbers of the charts.
 */
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { hrefOf } from '../../data/address.js'
import { formatNumber, formatSeconds, plural } from '../../data/format.js'
import type { LoopMetrics } from '../../data/loops.js'
import { useSteadyRows } from '../steady.js'

const ROWS = 20

/** Columns: which series, what it is called, and how it reads. */
const COLUMNS = [
  ['train_reward', 'Reward, training', formatNumber],
  ['valid_reward', 'Reward, held out', formatNumber],
  ['completion_tokens', 'Length', formatNumber],
  ['trained_groups', 'Groups trained', formatNumber],
  ['dropped_answers', 'Dropped answers', formatNumber],
  ['trained_tokens', 'Tokens trained', formatNumber],
  ['seconds/step', 'Took', formatSeconds],
] as const

export function LoopSteps({ metrics }: { readonly metrics: LoopMetrics }): JSX.Element {
  const [asked, setCount] = useState(ROWS)
  // what comes takes no row away that is read
  const [begun] = useState(metrics.steps.length)
  const count = asked + Math.max(0, metrics.steps.length - begun)
  const box = useRef<HTMLElement>(null)
  useSteadyRows(box)
  const { steps, job_ids: jobs, checkpoint_steps: checkpoints, series } = metrics
  const order = steps.map((_, i) => steps.length - 1 - i).slice(0, count)
  return (
    <section class="stack" aria-labelledby="steps">
      <h2 id="steps">Steps and jobs</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <section class="table" ref={box} tabIndex={0} aria-label="Steps and jobs of the loop">
        <table>
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col" class="number">
                Checkpoint
              </th>
              {COLUMNS.map(([key, title]) => (
                <th key={key} scope="col" class="number">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {order.map((i) => {
              const step = steps[i] ?? 0
              const job = jobs[i]
              return (
                <tr key={step}>
                  <th scope="row" class="nowrap">
                    {job == null ? (
                      step === 0 ? (
                        '0, before the first'
                      ) : (
                        step
                      )
                    ) : (
                      <a href={hrefOf(`/jobs/${job}`)}>{step}</a>
                    )}
                  </th>
                  <td class="number">{checkpoints[i]}</td>
                  {COLUMNS.map(([key, , format]) => (
                    <td key={key} class="number">
                      {format(series[key]?.[i])}
                    </td>
                  ))}
                </tr>
              )
            })}
          </tbody>
        </table>
      </section>
      {steps.length > count && (
        <p>
          <button type="button" onClick={() => setCount(asked + 4 * ROWS)}>
            {plural(steps.length - count, 'step')} more
          </button>
        </p>
      )}
    </section>
  )
}
