/**
 * One turn of Play: the user's messages, the model's answer, and facts about the answer (tokens, speed, why it
 * ended).
 */

import type { JSX } from 'preact'
import type { ApiError } from '../../data/api-error.js'
import { plural } from '../../data/format.js'
import { readFingerprint } from '../../data/marks.js'
import type { ChatBody, Message, Said } from '../../data/play/request.js'
import { Difference } from '../difference.js'
import { Markdown } from '../markdown.js'
import { AnswerMark, type Markable } from '../marks/answer-mark.js'
import { AnswerTokens } from './answer-tokens.js'
import { ToolCalls } from './tool-calls.js'

export interface Turn extends Said {
  /** What was sent: settings may change afterwards. */
  readonly body: ChatBody
  /** Its messages and tools as one text, to find columns that were asked the same. */
  readonly question: string
  readonly error: ApiError | null
  readonly isDone: boolean
}

export function AnswerView(props: {
  readonly turn: Turn
  /** The first column's answer, of which differences are marked; null in the first column. */
  readonly other: string | null
  readonly isMarkdown: boolean
  /** What a mark of it keeps; null: it cannot be marked yet. */
  readonly markable: Markable | null
  /** Goes on with the results of its calls; null: the conversation already went on, or something runs. */
  readonly onResults: ((results: readonly Message[]) => void) | null
}): JSX.Element {
  const { turn, other, isMarkdown, markable, onResults } = props
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
      {turn.asked.map((message, i) => (
        <p key={i} class="said raw">
          {message.role === 'tool' ? (
            <span class="soft small">result </span>
          ) : (
            <span class="visually-hidden">You: </span>
          )}
          {message.content}
        </p>
      ))}
      <div class="answer" aria-busy={!isDone}>
        {answer.reasoning !== '' && (
          <details>
            <summary class="soft small">Reasoning</summary>
            <p class="raw soft">{answer.reasoning}</p>
          </details>
        )}
        {isDone && answer.logprobs.length > 0 ? (
          <AnswerTokens tokens={answer.logprobs} shownAs={answer.shownAs} />
        ) : differs && other !== null ? (
          <Difference text={answer.text} from={other} />
        ) : isMarkdown ? (
          <Markdown text={answer.text} />
        ) : (
          <p class="raw">{answer.text}</p>
        )}
        {answer.calls.length > 0 && <ToolCalls calls={answer.calls} onResults={isDone ? onResults : null} />}
        {!isDone && answer.text === '' && answer.calls.length === 0 && <p class="soft">…</p>}
        {answer.violations.length > 0 && <p class="wrong small">Not of the schema: {answer.violations.join('; ')}</p>}
        {error !== null && (
          <div class="failure" role="alert">
            <p>{error.message}</p>
            {error.hint !== null && <p class="soft">{error.hint}</p>}
          </div>
        )}
        <p class="soft small facts">{facts.join(' · ')}</p>
        {answer.fingerprint !== null && (
          <p class="soft small facts">
            answered by {nameOfAnswerer(turn.body, answer.fingerprint)}{' '}
            <code title={answer.fingerprint}>{answer.fingerprint.split(':').at(-1)?.slice(0, 12)}</code>
          </p>
        )}
        {markable !== null && <AnswerMark {...markable} />}
      </div>
    </div>
  )
}

/** `tests/learner at step 3`: as it was asked for, and what the server says that answered. */
function nameOfAnswerer({ model }: ChatBody, fingerprint: string): string {
  const { modelId, step } = readFingerprint(fingerprint)
  if (modelId === null) return `the base model ${fingerprint.replace(/:step\d+:.*$/, '')}`
  return `${model.replace(/:[^:/]*$/, '')} at step ${step ?? 'unknown'}`
}
