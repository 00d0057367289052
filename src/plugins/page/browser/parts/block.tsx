/**
 * The states of a block of a page, each block by itself: a skeleton of the final height when it takes long, one sentence when there is
 * nothing, the server's own words when it refuses.
 */

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { go, here } from '../data/address.js'
import type { ApiError } from '../data/api-error.js'
import type { Loaded } from '../data/load.js'
import { forgetCredential } from '../data/session.js'
import { CopyButton } from './copy.js'

/** A loaded value, or what stands in its place. */
export function Block<T>(props: {
  readonly of: Loaded<T>
  /** Height of the skeleton, of what will stand there. */
  readonly height: string
  readonly children: (data: T) => ComponentChildren
}): JSX.Element {
  const { data, error, isSlow, reload } = props.of
  if (data !== null) {
    return (
      <>
        {error !== null && <Failure error={error} onRetry={reload} />}
        {props.children(data)}
      </>
    )
  }
  if (error !== null) return <Failure error={error} onRetry={reload} />
  return (
    <div class={isSlow ? 'skeleton' : ''} style={{ minHeight: props.height }} aria-busy="true">
      {isSlow && <span class="visually-hidden">Loading</span>}
    </div>
  )
}

/** What is shown where there is nothing yet: a sentence, and the command that changes it. */
export function Empty(props: { readonly children: ComponentChildren; readonly command?: string }): JSX.Element {
  return (
    <div class="empty">
      <p>{props.children}</p>
      {props.command !== undefined && <Command text={props.command} />}
    </div>
  )
}

/** Said in full up to so many characters. */
const LONG = 80

export function Command({ text }: { readonly text: string }): JSX.Element {
  return (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} label={`Copy ${text.length > LONG ? 'the command' : text}`} />
    </div>
  )
}

export function Failure(props: { readonly error: ApiError; readonly onRetry?: () => void }): JSX.Element {
  const { error, onRetry } = props
  const left = useCountdown(error)
  useEffect(() => {
    if (error.status !== 401) return
    const back = here.peek()
    forgetCredential()
    go(`/sign-in?back=${encodeURIComponent(back)}`, { replaces: true })
  }, [error])
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{error.status === 404 ? 'Gone, or not yours: ' : ''}</strong>
        {error.message}
      </p>
      {error.hint !== null && <p class="soft">{error.hint}</p>}
      <p class="row">
        {onRetry !== undefined && (
          <button type="button" disabled={left > 0} onClick={onRetry}>
            {left > 0 ? `Try again in ${left} s` : 'Try again'}
          </button>
        )}
        {error.requestId !== null && (
          <span class="soft small">
            request <code>{error.requestId}</code> <CopyButton text={error.requestId} label="Copy the request id" />
          </span>
        )}
      </p>
    </div>
  )
}

/** Seconds until the server wants to be asked again. */
function useCountdown(error: ApiError): number {
  const [left, setLeft] = useState(error.retryAfterSeconds ?? 0)
  useEffect(() => {
    setLeft(error.retryAfterSeconds ?? 0)
    const timer = setInterval(() => setLeft((seconds) => Math.max(0, seconds - 1)), 1000)
    return () => clearInterval(timer)
  }, [error])
  return left
}
