/**
 * A sentence of the server. What it names as one types it (options, fields, places in what was sent) is told from its words.
 */
import type { JSX } from 'preact'

const IDENTIFIER = /(`[^`]+`|\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\[\d+\]|\.[a-z_]+)*)/g

export function Prose({ text }: { readonly text: string }): JSX.Element {
  // a pattern in parentheses: what it finds stands at the odd places
  return (
    <>
      {text.split(IDENTIFIER).map((part, i) => (i % 2 === 1 ? <Name key={i} of={part.replaceAll('`', '')} /> : part))}
    </>
  )
}

/** As one types it; where there is no room for all of it a line ends behind a word of it. */
export function Name({ of: name }: { readonly of: string }): JSX.Element {
  return (
    <code>
      {name.split(/(?<=[_.])/).map((part, i) => (
        <span key={i}>
          {part}
          <wbr />
        </span>
      ))}
    </code>
  )
}
