/**
 * A conversation as it was sent: roles, text, reasoning, tool calls and their results. All of it is text, whoever wrote it.
 */
import type { JSX } from 'preact'
import type { RolloutTrajectory } from '#contract/wire/training/rollouts.js'

type History = RolloutTrajectory['histories'][number]
type Turn = History['messages'][number]

/** Characters of a message that are shown at once. */
const LONG = 20_000

export function Conversation({ histories }: { readonly histories: readonly History[] }): JSX.Element {
  return (
    <div class="stack">
      {histories.map(({ messages, tools }, h) => (
        <section key={h} class="stack" aria-label={h === 0 ? 'Main history' : `Additional history ${h}`}>
          {h > 0 && <h3>Additional history {h}</h3>}
          {tools !== null && tools.length > 0 && <Json title={`${tools.length} tools`} value={tools} />}
          <ol class="plain">
            {messages.map((turn, t) => (
              <Message key={t} turn={turn} />
            ))}
          </ol>
        </section>
      ))}
    </div>
  )
}

function Message({ turn }: { readonly turn: Turn }): JSX.Element {
  const { message, is_sampled: isSampled, finish_reason: end } = turn
  const { role, content, tool_calls: calls, reasoning, reasoning_content: thought } = message
  const text = textOf(content)
  const reason = textOf(reasoning ?? thought)
  return (
    <li class={isSampled ? 'message sampled' : 'message'}>
      <p class="small soft">
        {typeof role === 'string' ? role : 'message'}
        {isSampled && <span class="tag">sampled</span>}
        {end === 'length' && <span class="tag">cut off</span>}
      </p>
      {reason !== '' && (
        <details>
          <summary class="soft small">Reasoning</summary>
          <Text text={reason} />
        </details>
      )}
      {text !== '' && <Text text={text} />}
      {Array.isArray(calls) && calls.length > 0 && <Json title={`calls ${namesOf(calls)}`} value={calls} />}
    </li>
  )
}

function Text({ text }: { readonly text: string }): JSX.Element {
  if (text.length <= LONG) return <p class="raw">{text}</p>
  return (
    <>
      <p class="raw">{text.slice(0, LONG)}…</p>
      <details>
        <summary class="soft small">{text.length - LONG} characters more</summary>
        <p class="raw">{text.slice(LONG)}</p>
      </details>
    </>
  )
}

function Json({ title, value }: { readonly title: string; readonly value: unknown }): JSX.Element {
  return (
    <details>
      <summary class="small">{title}</summary>
      <pre class="json">{JSON.stringify(value, null, 2)}</pre>
    </details>
  )
}

function textOf(content: unknown): string {
  if (content === null || content === undefined) return ''
  return typeof content === 'string' ? content : JSON.stringify(content, null, 2)
}

function namesOf(calls: readonly unknown[]): string {
  return calls
    .map((call) => {
      const { function: called } = call as { readonly function?: { readonly name?: unknown } | null }
      return typeof called?.name === 'string' ? called.name : 'a tool'
    })
    .join(', ')
}
