/**
 * Answers of two steps to the same prompts, side by side: what the second one has and the first has not is marked.
 */
import type { JSX } from 'preact'
import type { LoggedPair } from '#contract/wire/log-comparison.js'
import { formatNumber, withoutTurns } from '../data/format.js'
import { Difference } from './difference.js'

export function PairList(props: {
  readonly pairs: readonly LoggedPair[]
  /** What the two sides are called. */
  readonly titles: readonly [string, string]
}): JSX.Element {
  return (
    <ol class="plain pairs-list">
      {props.pairs.map((pair, i) => (
        <li key={i} class={`card ${pair.outcome}`}>
          <p class="row">
            <span class={`tag outcome ${pair.outcome}`}>{pair.outcome}</span>
            <span class="facts-number">
              {formatNumber(pair.rewards[0])} → {formatNumber(pair.rewards[1])}
            </span>
            <span class="soft small">
              {pair.counts[0] + pair.counts[1] > 2 && `means of ${pair.counts[0]} and ${pair.counts[1]} answers `}
              {pair.id !== null && <code>{pair.id}</code>}
            </span>
          </p>
          <Asked messages={pair.messages} />
          <div class="two">
            {([0, 1] as const).map((side) => {
              const answer = pair.answers[side]?.[0]
              return (
                <div key={side} class="stack side">
                  <p class="soft small">
                    {props.titles[side]} · reward {formatNumber(answer?.reward)}
                  </p>
                  {side === 0 ? (
                    <p class="raw">{answer?.text ?? ''}</p>
                  ) : (
                    <Difference text={answer?.text ?? ''} from={pair.answers[0]?.[0]?.text ?? ''} />
                  )}
                  {answer?.text === '' && <p class="soft">(nothing)</p>}
                </div>
              )
            })}
          </div>
        </li>
      ))}
    </ol>
  )
}

/** What was said before an answer. */
export function Asked(props: { readonly messages: readonly Readonly<Record<string, unknown>>[] }): JSX.Element {
  return (
    <div class="asked">
      {props.messages.map(({ role, content }, i) => (
        <p key={i} class="raw">
          <span class="soft small">{String(role)} </span>
          {withoutTurns(typeof content === 'string' ? content : JSON.stringify(content))}
        </p>
      ))}
    </div>
  )
}
