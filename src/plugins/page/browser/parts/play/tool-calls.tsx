/**
 * The calls of an answer, and their results as they are typed in: what a program would run, its user plays here.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Message, ToolCall } from '../../data/play/request.js'

export function ToolCalls(props: {
  readonly calls: readonly ToolCall[]
  /** Null: results are in, or cannot be given now. */
  readonly onResults: ((results: readonly Message[]) => void) | null
}): JSX.Element {
  const { calls, onResults } = props
  const [results, setResults] = useState<readonly string[]>([])
  const send = (event: Event): void => {
    event.preventDefault()
    onResults?.(calls.map(({ id }, i) => ({ role: 'tool', tool_call_id: id, content: results[i] ?? '' })))
  }
  return (
    <form class="stack calls" onSubmit={send}>
      {calls.map((call, i) => (
        <div class="message sampled" key={i}>
          <p class="small soft">
            calls <code>{call.function.name}</code>
            {!isJson(call.function.arguments) && <span class="tag">arguments are no JSON</span>}
          </p>
          <pre class="json">{toPretty(call.function.arguments)}</pre>
          {onResults !== null && (
            <label class="field small">
              Result of {call.function.name}
              <textarea
                rows={2}
                class="code"
                spellcheck={false}
                value={results[i] ?? ''}
                onInput={(event) => {
                  const next = [...results]
                  next[i] = event.currentTarget.value
                  setResults(next)
                }}
              />
            </label>
          )}
        </div>
      ))}
      {onResults !== null && (
        <p class="row">
          <button type="submit">{calls.length === 1 ? 'Send the result' : 'Send the results'}</button>
        </p>
      )}
    </form>
  )
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function toPretty(text: string): string {
  return isJson(text) ? JSON.stringify(JSON.parse(text), null, 2) : text
}
