/**
 * A prompt that is to be watched.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { DEFAULT_PROBE_TOKENS, MAX_PROBE_MESSAGE, MAX_PROBE_TOKENS } from '#contract/wire/inference/probe-words.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { ask } from '../../data/client.js'
import { useGone } from '../../data/load.js'
import { missingScope } from '../../data/session.js'
import { Failure } from '../block.js'

export function AddProbe(props: {
  /** Of the model's probes. */
  readonly path: string
  readonly isOpen: boolean
  readonly onAdded: () => void
}): JSX.Element {
  const [text, setText] = useState('')
  const [system, setSystem] = useState('')
  const [tokens, setTokens] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const gone = useGone()
  const missing = missingScope('write')

  async function add(event: Event): Promise<void> {
    event.preventDefault()
    if (isBusy || text.trim() === '') return
    setIsBusy(true)
    setError(null)
    const messages = [
      ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
      { role: 'user', content: text },
    ]
    try {
      await ask(props.path, { json: { messages, ...(tokens === '' ? {} : { max_tokens: Number(tokens) }) } })
      if (gone.aborted) return
      setText('')
      props.onAdded()
    } catch (raw) {
      if (gone.aborted) return
      setError(toApiError(raw))
    }
    setIsBusy(false)
  }
  return (
    <details class="card" open={props.isOpen}>
      <summary>Add a prompt</summary>
      <form class="stack" onSubmit={(event) => void add(event)}>
        <label class="field">
          Prompt
          <textarea
            rows={2}
            required
            maxLength={MAX_PROBE_MESSAGE}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          System prompt
          <textarea
            rows={1}
            maxLength={MAX_PROBE_MESSAGE}
            value={system}
            onInput={(event) => setSystem(event.currentTarget.value)}
          />
        </label>
        <div class="row">
          <label class="row">
            Longest answer, tokens
            <input
              type="number"
              min={1}
              max={MAX_PROBE_TOKENS}
              placeholder={String(DEFAULT_PROBE_TOKENS)}
              value={tokens}
              onInput={(event) => setTokens(event.currentTarget.value)}
            />
          </label>
          <button
            type="submit"
            class="primary"
            disabled={isBusy || missing !== null || text.trim() === ''}
            title={missing ?? undefined}
          >
            {isBusy ? 'Adding…' : 'Watch it'}
          </button>
        </div>
        {error !== null && <Failure error={error} />}
      </form>
    </details>
  )
}
