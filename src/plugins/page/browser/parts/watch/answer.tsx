/**
 * What a step says to a watched prompt: its text, that it waits, why it failed, or that nobody asked it.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ProbeAnswer } from '#contract/wire/inference/probes.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { plural } from '../../data/format.js'
import { missingScope } from '../../data/session.js'
import { Failure } from '../block.js'
import { Difference } from '../difference.js'

export function nameOfStep(step: number): string {
  return step === 0 ? 'the base model’s' : `step ${step}’s`
}

export function AnswerOf(props: {
  readonly step: number
  readonly answer: ProbeAnswer | undefined
  /** Text whose words are not marked; null: nothing is. */
  readonly beside: string | null
  readonly onAsk: (step: number) => Promise<void>
}): JSX.Element {
  const { step, answer, beside } = props
  return (
    <div class="stack side" aria-busy={answer?.status === 'queued'}>
      <p class="soft small">
        {step === 0 ? 'base model' : `step ${step}`}
        {answer?.status === 'answered' && ` · ${plural(answer.completion_tokens ?? 0, 'token')}`}
        {answer?.finish_reason === 'length' && ' · cut off'}
        {answer?.status === 'answered' && beside !== null && beside === answer.text && ' · the same'}
      </p>
      {answer?.status === 'answered' && <Text text={answer.text ?? ''} beside={beside} />}
      {answer?.status === 'queued' && <p class="soft">It waits for its turn, behind all chats.</p>}
      {answer?.status === 'failed' && <p class="wrong">It did not answer: {answer.error}</p>}
      {answer?.checkpoint != null && (
        <p class="soft small">
          answered by <code>{answer.checkpoint.split(':').at(-1)}</code>
        </p>
      )}
      {(answer === undefined || answer.status === 'failed') && <AskNow {...props} />}
    </div>
  )
}

export function Text(props: { readonly text: string; readonly beside: string | null }): JSX.Element {
  const { text, beside } = props
  if (text === '') return <p class="soft">(nothing)</p>
  return beside === null ? <p class="raw">{text}</p> : <Difference text={text} from={beside} />
}

function AskNow(props: {
  readonly step: number
  readonly answer: ProbeAnswer | undefined
  readonly onAsk: (step: number) => Promise<void>
}): JSX.Element {
  const { step, answer, onAsk } = props
  const [isBusy, setIsBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const missing = missingScope('write')
  const name = step === 0 ? 'the base model' : `step ${step}`
  return (
    <>
      {answer === undefined && <p class="soft">Nobody asked {name}.</p>}
      <p>
        <button
          type="button"
          disabled={isBusy || missing !== null}
          title={missing ?? undefined}
          onClick={() => {
            setIsBusy(true)
            setError(null)
            onAsk(step)
              .catch((raw: unknown) => setError(toApiError(raw)))
              .finally(() => setIsBusy(false))
          }}
        >
          {answer === undefined ? `Ask ${name}` : 'Ask again'}
        </button>
      </p>
      {error !== null && <Failure error={error} />}
    </>
  )
}
