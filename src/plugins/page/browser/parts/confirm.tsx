/**
 * Asks once before something is lost. It names what, and Escape means no.
 */

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, toApiError } from '../data/api-error.js'

export function Confirm(props: {
  readonly title: string
  /** What the button says: the deed itself. */
  readonly deed: string
  readonly children: ComponentChildren
  readonly run: () => Promise<void>
  readonly onClose: () => void
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])

  async function run(): Promise<void> {
    setIsBusy(true)
    setError(null)
    try {
      await props.run()
      dialog.current?.close()
    } catch (raw) {
      setError(toApiError(raw))
      setIsBusy(false)
    }
  }

  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onClose={props.onClose}>
      <div class="stack">
        <h2 id="confirm-title">{props.title}</h2>
        {props.children}
        {error !== null && (
          <p class="wrong" role="alert">
            {error.message}
          </p>
        )}
        <p class="row end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button type="button" class="danger" disabled={isBusy} onClick={() => void run()}>
            {props.deed}
          </button>
        </p>
      </div>
    </dialog>
  )
}
