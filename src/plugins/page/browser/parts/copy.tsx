/**
 * Copies a text. The clipboard's own interface exists only in secure contexts, so on plain http by address the text is selected in a field
 * and copied from there; where that fails too it stays selected for Ctrl+C.
 */
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'

const SHOWN_MS = 1500

export function CopyButton(props: {
  /** A long one is put together when it is wanted. */
  readonly text: string | (() => string)
  readonly label: string
  readonly children?: string
}): JSX.Element {
  const [said, setSaid] = useState<string | null>(null)
  const field = useRef<HTMLTextAreaElement>(null)
  const [isFieldShown, setIsFieldShown] = useState(false)

  async function copy(): Promise<void> {
    const isCopied = await copyText(textOf(props.text))
    if (!isCopied) {
      setIsFieldShown(true)
      setTimeout(() => field.current?.select(), 0)
      return
    }
    setSaid('Copied')
    setTimeout(() => setSaid(null), SHOWN_MS)
  }

  return (
    <>
      <button type="button" class="copy" aria-label={props.label} title={props.label} onClick={() => void copy()}>
        {said ?? props.children ?? 'Copy'}
      </button>
      <span class="visually-hidden" role="status">
        {said ?? ''}
      </span>
      {isFieldShown && (
        <textarea ref={field} class="copied" aria-label={props.label} readOnly value={textOf(props.text)} />
      )}
    </>
  )
}

function textOf(text: string | (() => string)): string {
  return typeof text === 'string' ? text : text()
}

/** @returns whether the text is in the clipboard */
async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  }
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'visually-hidden'
  document.body.append(field)
  field.select()
  // deprecated, and the only way without a secure context
  const isCopied = document.execCommand('copy')
  field.remove()
  return isCopied
}
