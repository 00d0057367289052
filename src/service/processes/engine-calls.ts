/**
 * What a host was asked and has not answered: generations, text work and pings. Brings each event to the call it belongs to.
 *
 * Knows neither how commands travel (`engine-link.ts`) nor when the host runs (`engine-supervisor.ts`). Every call ends once: with
 * its answer, with the error the host has for it, or with the one it is failed with.
 */
import { fromErrorMessage } from '#base/errors/error-message.js'
import type { AppError } from '#base/errors/errors.js'
import { type AsyncQueue, createAsyncQueue } from '#base/util/async-queue.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import type {
  DeltaEvent,
  GenerateOptions,
  HostCommand,
  HostEvent,
  PongEvent,
  PromptEvent,
  PromptInput,
  StartedEvent,
  TextResult,
  TextTask,
} from '#inference/host/protocol.js'

export type GenerationEvent = StartedEvent | PromptEvent | DeltaEvent
/** Whose it is must be said: without it no engine node would see it. */
export type GenerateRequest = GenerateOptions & PromptInput & Required<Pick<GenerateOptions, 'owner'>>

export interface EngineCalls {
  /** Generations and text work that are under way: what a limit counts. */
  size(): number
  /** Whether anybody waits for an answer, if only to a ping. */
  isWaitedFor(): boolean
  /** Sends a request now; its events are read from what it returns. Leaving the loop early, or `signal`, aborts it. */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<GenerationEvent>
  /** Sends text work now. @throws {AppError} as the host has it */
  text(id: string, task: TextTask): Promise<TextResult>
  /** @throws {AppError} `late()` if no answer comes in time */
  ping(id: string, timeout: { readonly ms: number; readonly late: () => AppError }): Promise<PongEvent>
  /** Hands an event to its call; what belongs to none is dropped. */
  receive(event: HostEvent): void
  /** Fails every generation and all text work, and has the host stop them. */
  failRequests(error: AppError): void
  /** Fails everything: the host is gone. */
  failAll(error: AppError): void
}

interface Generation {
  readonly queue: AsyncQueue<GenerationEvent>
  isAborted: boolean
}

export function createEngineCalls(send: (command: HostCommand) => void): EngineCalls {
  const generations = new Map<string, Generation>()
  const texts = new Map<string, Deferred<TextResult>>()
  const pings = new Map<string, Deferred<PongEvent>>()

  function abort(id: string): void {
    const generation = generations.get(id)
    if (generation === undefined || generation.isAborted) return
    generation.isAborted = true
    send({ type: 'abort', id })
  }

  function generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<GenerationEvent> {
    const onAbort = (): void => abort(request.id)
    const queue = createAsyncQueue<GenerationEvent>(onAbort)
    generations.set(request.id, { queue, isAborted: false })
    send({ type: 'generate', ...request })
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    return readToEnd(queue, () => signal.removeEventListener('abort', onAbort))
  }

  /** @returns whether the event was of text work */
  function receiveText(id: string, event: HostEvent): boolean {
    const text = texts.get(id)
    if (text === undefined) return false
    texts.delete(id)
    if (event.type === 'text') text.resolve(event.result)
    else if (event.type === 'failed') text.reject(fromErrorMessage(event.error))
    return true
  }

  function receive(event: HostEvent): void {
    if (event.type === 'loaded' || event.id === null) return
    if (event.type === 'pong') {
      pings.get(event.id)?.resolve(event)
      return
    }
    if (receiveText(event.id, event) || event.type === 'text') return
    const generation = generations.get(event.id)
    if (generation === undefined) return
    if (event.type !== 'finished' && event.type !== 'failed') {
      generation.queue.push(event)
      return
    }
    generations.delete(event.id)
    if (event.type === 'finished') generation.queue.end()
    else generation.queue.fail(fromErrorMessage(event.error))
  }

  function failRequests(error: AppError): void {
    for (const [id, { queue }] of generations) {
      send({ type: 'abort', id })
      queue.fail(error)
    }
    generations.clear()
    for (const text of texts.values()) text.reject(error)
    texts.clear()
  }

  return {
    size: () => generations.size + texts.size,
    isWaitedFor: () => generations.size + texts.size + pings.size > 0,
    generate,
    text: (id, task) => {
      const deferred = createDeferred<TextResult>()
      texts.set(id, deferred)
      send({ type: 'text', id, task })
      return deferred.promise
    },
    ping: (id, { ms, late }) => {
      const deferred = createDeferred<PongEvent>()
      const timer = setTimeout(() => deferred.reject(late()), ms)
      pings.set(id, deferred)
      send({ type: 'ping', id })
      return deferred.promise.finally(() => {
        clearTimeout(timer)
        pings.delete(id)
      })
    },
    receive,
    failRequests,
    failAll: (error) => {
      failRequests(error)
      for (const ping of pings.values()) ping.reject(error)
    },
  }
}

async function* readToEnd<T>(queue: AsyncQueue<T>, onEnd: () => void): AsyncGenerator<T> {
  try {
    yield* queue
  } finally {
    onEnd()
  }
}
