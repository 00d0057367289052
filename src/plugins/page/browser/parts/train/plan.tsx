/**
 * A plan as a picture: what trains and what does not, how much memory and time it takes, what speaks against it. Every number comes
 * from the plan, and every bar shows its number.
 */

import type { ComponentChildren, JSX } from 'preact'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import { formatBytes, formatCount, formatNumber, formatSeconds, plural } from '../../data/format.js'
import { lowerWordsOf } from '../../data/words.js'
import { Prose } from '../prose.js'

/** Sequences and groups that are drawn; the request gives as many as the server chose. */
const SHOWN = 20

export function PlanPicture(props: {
  readonly plan: TrainingPlan
  /** Leads from a sentence to what answers it; null where it names nothing of the form. */
  readonly onSentence: (sentence: string) => ComponentChildren
}): JSX.Element {
  const { plan } = props
  return (
    <>
      {plan.refusal !== null && (
        <div class="failure" role="alert">
          <p>
            <strong>This job would fail at once.</strong> <Prose text={plan.refusal.message} />
          </p>
          <p class="soft small">
            <code>{plan.refusal.code}</code>
          </p>
          {props.onSentence(plan.refusal.message)}
        </div>
      )}
      {plan.warnings.length > 0 && (
        <ul class="warnings open">
          {plan.warnings.map((warning) => (
            <li key={warning}>
              <Prose text={warning} /> {props.onSentence(warning)}
            </li>
          ))}
        </ul>
      )}
      <Figures plan={plan} />
      {plan.left_out.length > 0 && (
        <ul>
          {plan.left_out.map(({ reason, count, examples }) => (
            <li key={reason}>
              Left out, {lowerWordsOf(reason)}: {formatCount(count)} <span class="soft">{examples.join(', ')}</span>
            </li>
          ))}
        </ul>
      )}
      {plan.groups.length > 0 && <Groups plan={plan} />}
      {plan.sequences.length > 0 && <Sequences plan={plan} />}
    </>
  )
}

function Figures({ plan }: { readonly plan: TrainingPlan }): JSX.Element {
  const { memory, time } = plan
  const { needed_bytes: needed, available_bytes: free } = memory
  return (
    <div class="plan-figures">
      <Figure
        title="Tokens that train"
        value={`${formatCount(plan.trained_tokens)} of ${formatCount(plan.tokens)}`}
        share={plan.tokens === 0 ? 0 : plan.trained_tokens / plan.tokens}
        note="the others are only read"
      />
      <Figure
        title="Memory beside the weights"
        value={needed === null ? 'more than there is' : formatBytes(needed)}
        share={needed === null ? 1 : free === null ? 0 : Math.min(1, needed / Math.max(free, 1))}
        isBad={needed === null || (free !== null && needed > free)}
        note={`${free === null ? '' : `of ${formatBytes(free)} free`}${memory.is_recomputed === true ? ', layers recomputed' : ''}`}
      />
      <Figure
        title="Gradient steps"
        value={formatCount(plan.num_gradient_steps)}
        note={`${plural(plan.num_rows, 'row')}, at most ${formatCount(memory.rows)} of ${plural(memory.row_length, 'token')} at once`}
      />
      <Figure
        title="Time"
        value={time.predicted_seconds === null ? 'not known' : `about ${formatSeconds(time.predicted_seconds)}`}
        note={
          time.basis === null
            ? 'nothing to train on'
            : `${time.tokens_per_second === null ? '' : `${formatCount(Math.round(time.tokens_per_second))} tokens/s, `}${time.basis === 'calibration' ? 'measured for two seconds' : 'as the last job of this size'}`
        }
      />
    </div>
  )
}

function Figure(props: {
  readonly title: string
  readonly value: string
  readonly note: string
  /** Of a bar, 0 to 1; none is drawn without. */
  readonly share?: number
  readonly isBad?: boolean
}): JSX.Element {
  return (
    <div class="card figure">
      <p class="soft small">{props.title}</p>
      <p class="big">{props.value}</p>
      {props.share !== undefined && (
        <svg
          class={props.isBad === true ? 'bar bad' : 'bar'}
          aria-hidden="true"
          preserveAspectRatio="none"
          viewBox="0 0 100 6"
        >
          <rect class="rest" width="100" height="6" />
          <rect class="part" width={100 * props.share} height="6" />
        </svg>
      )}
      <p class="soft small">{props.note}</p>
    </div>
  )
}

function Groups({ plan }: { readonly plan: TrainingPlan }): JSX.Element {
  const shown = plan.groups.slice(0, SHOWN)
  const most = shown.flatMap(({ advantages }) => advantages).reduce((all, each) => Math.max(all, Math.abs(each)), 1e-9)
  return (
    <section class="stack" aria-labelledby="plan-groups">
      <h3 id="plan-groups">
        Groups <span class="soft">{countOf(shown.length, plan.num_groups)}</span>
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <section class="table" tabIndex={0} aria-label="Groups of the plan">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">Group</th>
              <th scope="col" class="number">
                Mean reward
              </th>
              <th scope="col" class="number">
                Deviation
              </th>
              <th scope="col">Advantages</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((group) => (
              <tr key={group.index} class={group.left_out === null ? '' : 'soft'}>
                <th scope="row">{group.index}</th>
                <td class="number" data-label="Mean reward">
                  {formatNumber(group.mean_reward)}
                </td>
                <td class="number" data-label="Deviation">
                  {formatNumber(group.reward_std_dev)}
                </td>
                <td data-label="Advantages">
                  {group.left_out === null ? (
                    <Advantages values={group.advantages} most={most} />
                  ) : (
                    `does not train: ${lowerWordsOf(group.left_out)}`
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </section>
  )
}

const BAR = 8
const HALF = 12

/** A bar for each trajectory, above or below nought. */
function Advantages({ values, most }: { readonly values: readonly number[]; readonly most: number }): JSX.Element {
  const shown = values.slice(0, 32)
  const said = values.map((value) => formatNumber(value)).join(', ')
  const least = values.reduce((all, each) => Math.min(all, each), Number.POSITIVE_INFINITY)
  const greatest = values.reduce((all, each) => Math.max(all, each), Number.NEGATIVE_INFINITY)
  return (
    <span class="advantages">
      <svg width={shown.length * BAR} height={2 * HALF} role="img" aria-label={`advantages ${said}`}>
        {shown.map((value, i) => {
          const height = (HALF * Math.abs(value)) / most
          return (
            <rect
              key={i}
              class={value > 0 ? 'up' : 'down'}
              x={i * BAR}
              width={BAR - 2}
              y={value > 0 ? HALF - height : HALF}
              height={Math.max(height, 0.5)}
            />
          )
        })}
      </svg>
      <span class="soft small">
        {formatNumber(least)} … {formatNumber(greatest)}
      </span>
    </span>
  )
}

export function Sequences({ plan }: { readonly plan: TrainingPlan }): JSX.Element {
  const shown = plan.sequences.slice(0, SHOWN)
  const longest = shown.reduce((all, { tokens }) => Math.max(all, tokens), 1)
  return (
    <section class="stack" aria-labelledby="plan-sequences">
      <h3 id="plan-sequences">
        What is in the file <span class="soft">{countOf(shown.length, plan.num_sequences)}</span>
      </h3>
      <p class="soft small">
        Marked text trains, the rest is only read. A bar is as long as its sequence; open one to read it as the model
        does.
      </p>
      <div class="card sequences">
        {shown.map((sequence, n) => (
          <details key={sequence.source} open={n === 0}>
            <summary>
              <span class="source">{sequence.source}</span>
              <Mask sequence={sequence} longest={longest} />
              <span class="soft small facts">
                {formatCount(sequence.trained_tokens)} of {plural(sequence.tokens, 'token')}
                {sequence.advantage === null ? '' : ` · advantage ${formatNumber(sequence.advantage)}`}
                {sequence.weight === null || sequence.weight === 1 ? '' : ` · weight ${formatNumber(sequence.weight)}`}
              </span>
            </summary>
            <p class="raw spans">
              {sequence.spans.map((span, i) =>
                span.is_trained ? <mark key={i}>{span.text}</mark> : <span key={i}>{span.text}</span>,
              )}
            </p>
            {sequence.omitted_spans > 0 && <p class="soft small">{plural(sequence.omitted_spans, 'part')} not shown</p>}
          </details>
        ))}
      </div>
    </section>
  )
}

/** What trains of a sequence, from left to right. */
function Mask(props: { readonly sequence: TrainingPlan['sequences'][number]; readonly longest: number }): JSX.Element {
  const { spans, tokens } = props.sequence
  let at = 0
  const parts = spans.map((span) => {
    const from = at
    at += span.tokens
    return { ...span, from }
  })
  return (
    <svg class="mask" viewBox={`0 0 ${props.longest} 8`} preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width={tokens} height="8" />
      {parts.map((part) =>
        part.is_trained ? <rect key={part.from} class="part" x={part.from} width={part.tokens} height="8" /> : null,
      )}
    </svg>
  )
}

function countOf(shown: number, all: number): string {
  return shown < all ? `the first ${formatCount(shown)} of ${formatCount(all)}` : formatCount(all)
}
