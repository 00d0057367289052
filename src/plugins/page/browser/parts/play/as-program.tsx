/**
 * The last request of the first column as a command or program, to copy.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { apiUrl } from '../../data/client.js'
import type { ChatBody, Sampling } from '../../data/play/request.js'
import { snippetsOf } from '../../data/play/snippets.js'
import { CopyButton } from '../copy.js'

export function AsProgram({ body, own }: { readonly body: ChatBody; readonly own: Sampling }): JSX.Element {
  const [chosen, setChosen] = useState('')
  const snippets = snippetsOf(body, new URL(apiUrl('/v1'), location.href).href, own)
  const shown = snippets.find(({ title }) => title === chosen) ?? snippets[0]
  return (
    <details class="copy-as">
      <summary>The same in a terminal or a program</summary>
      <div class="stack">
        <p class="row">
          {snippets.map(({ title }) => (
            <button key={title} type="button" aria-pressed={title === shown?.title} onClick={() => setChosen(title)}>
              {title}
            </button>
          ))}
          {shown !== undefined && <CopyButton text={shown.text} label={`Copy as ${shown.title}`} />}
        </p>
        {shown !== undefined && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
          <section class="snippet" tabIndex={0} aria-label={`The request as ${shown.title}`}>
            <pre class="json">{shown.text}</pre>
          </section>
        )}
      </div>
    </details>
  )
}
