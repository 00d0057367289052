/**
 * A message and its answer, with what is known of how it came about.
 */
import type { JSX } from 'preact'
import type { Answer } from '../data/chat.js'
import type { ApiError } from '../data/client.js'
import { plural } from '../data/format.js'
import { Difference } from './difference.js'
import { Markdown } from './markdown.js'

export interface Turn {
  readonly prompt: string
  readonly answer: Answer
  readonly error: ApiError | null
  readonly isDone: boolean
}

/** @param props.other the first column's answer, of which differences are marked; null in the first column */
export function AnswerView(props: {
  readonly turn: Turn
  readonly other: string | null
  readonly isMarkdown: boolean
}): JSX.Element {
  const { turn, other, isMarkdown } = props
  const { answer, error, isDone } = turn
  const differs = other !== null && isDone && other !== answer.text
  const facts = [
    answer.tokens === null ? null : plural(answer.tokens, 'token'),
    answer.speed === null ? null : `${Math.round(answer.speed)}/s`,
    answer.finish,
    differs ? 'differs from the first' : other !== null && isDone && error === null ? 'the same as the first' : null,
  ].filter((fact) => fact !== null)
  return (
    <div class="turn">
      <p class="said raw">
        <span class="visually-hidden">You: </span>
        {turn.prompt}
      </p>
      <div class="answer" aria-busy={!isDone}>
        {answer.reasoning !== '' && (
          <details>
            <summary class="soft small">Reasoning</summary>
            <p class="raw soft">{answer.reasoning}</p>
          </details>
        )}
        {differs && other !== null ? (
          <Difference text={answer.text} from={other} />
        ) : isMarkdown ? (
          <Markdown text={answer.text} />
        ) : (
          <p class="raw">{answer.text}</p>
        )}
        {!isDone && answer.text === '' && <p class="soft">…</p>}
        {error !== null && (
          <div class="failure" role="alert">
            <p>{error.message}</p>
            {error.hint !== null && <p class="soft">{error.hint}</p>}
          </div>
        )}
        <p class="soft small facts">{facts.join(' · ')}</p>
        {answer.fingerprint !== null && (
          <p class="soft small facts">
            answered by <code>{answer.fingerprint}</code>
          </p>
        )}
      </div>
    </div>
  )
}
