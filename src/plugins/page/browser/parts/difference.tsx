/**
 * A text with the words marked that another one does not have.
 */
import { diffWordsWithSpace } from 'diff'
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'

/** Longer texts are compared no more: the time grows with the square of what differs. */
const LONGEST = 20_000

export function Difference(props: { readonly text: string; readonly from: string }): JSX.Element {
  const { text, from } = props
  const parts = useMemo(
    () => (text.length + from.length > LONGEST ? null : diffWordsWithSpace(from, text, { timeout: 200 })),
    [text, from],
  )
  if (parts === null || parts === undefined) return <p class="raw">{text}</p>
  return (
    <p class="raw">
      {parts.map((part, i) => (part.removed ? null : part.added ? <mark key={i}>{part.value}</mark> : part.value))}
    </p>
  )
}
