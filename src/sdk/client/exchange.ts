/**
 * What ends one request from outside: the caller's signal, or silence for longer than the limit.
 *
 * One controller and one timer of our own per request. `AbortSignal.any` and `AbortSignal.timeout` would be shorter, but
 * on Node 20 they hold their followers weakly: after a garbage collection the abort reaches nobody, least of all the body
 * that is being read. So the body is read through here, and an end cancels its reader.
 */
import { setMaxListeners } from 'node:events'

/** The two ways a request is ended from outside. */
export type EndCause = 'aborted' | 'timed_out'

export interface Exchange {
  /** For `fetch`. */
  readonly signal: AbortSignal
  /** Why it was ended; null while it was not. */
  readonly endCause: () => EndCause | null
  /** The same answer, whose body stops at the end of the exchange; each piece that arrives starts the limit anew. */
  readonly guard: (response: Response, toError: (cause: unknown) => unknown) => Response
  /** Forgets timer and listener; for a request that has no answer to read. */
  readonly release: () => void
}

/** Starts an exchange. `timeoutMs` is the longest silence: until the answer begins, and between two pieces of it. */
export function startExchange(outer: AbortSignal | undefined, timeoutMs: number): Exchange {
  const controller = new AbortController()
  let endCause: EndCause | null = null
  let timer = setTimeout(end, timeoutMs, 'timed_out')
  timer.unref?.()
  // Rollouts by the dozen share a signal: that many listeners are no leak, each goes with its request.
  if (outer !== undefined) setMaxListeners(0, outer)
  outer?.addEventListener('abort', abort, { once: true })
  if (outer?.aborted === true) abort()

  function end(cause: EndCause): void {
    if (endCause !== null) return
    endCause = cause
    release()
    controller.abort(cause === 'aborted' ? outer?.reason : new DOMException('timed out', 'TimeoutError'))
  }
  function abort(): void {
    end('aborted')
  }
  function release(): void {
    clearTimeout(timer)
    outer?.removeEventListener('abort', abort)
  }
  function rearm(): void {
    clearTimeout(timer)
    timer = setTimeout(end, timeoutMs, 'timed_out')
    timer.unref?.()
  }

  return {
    signal: controller.signal,
    endCause: () => endCause,
    release,
    guard(response, toError) {
      if (response.body === null) {
        release()
        return response
      }
      const body = readUntilEnd(response.body, { signal: controller.signal, toError, onPiece: rearm, onDone: release })
      const { status, statusText, headers } = response
      return new Response(body, { status, statusText, headers })
    },
  }
}

function readUntilEnd(
  body: ReadableStream<Uint8Array>,
  hooks: {
    readonly signal: AbortSignal
    readonly toError: (cause: unknown) => unknown
    readonly onPiece: () => void
    readonly onDone: () => void
  },
): ReadableStream<Uint8Array> {
  const { signal, toError, onPiece, onDone } = hooks
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // The signal holds this listener, and the exchange's timer and outer listener hold the signal: none is collected
        // before the answer is read.
        function stop(): void {
          controller.error(toError(signal.reason))
          void reader.cancel(signal.reason).catch(() => undefined)
        }
        if (signal.aborted) stop()
        else signal.addEventListener('abort', stop, { once: true })
      },
      async pull(controller) {
        try {
          const piece = await reader.read()
          if (signal.aborted) return
          if (piece.done) {
            onDone()
            controller.close()
          } else {
            onPiece()
            controller.enqueue(piece.value)
          }
        } catch (error) {
          if (signal.aborted) return
          onDone()
          controller.error(toError(error))
        }
      },
      async cancel(reason) {
        onDone()
        await reader.cancel(reason)
      },
    },
    // Nothing is read ahead of the reader: a slow one must slow the sender down.
    { highWaterMark: 0 },
  )
}
