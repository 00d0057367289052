/**
 * A compiled grammar, seen from the engine's thread: makes masks for choices; the work is done by a thread of its own.
 *
 * Compiling has a limit of processor time and of memory. A machine that is busy with something else does not use it up: where
 * the system tells a thread's processor time (Linux), that is what counts, elsewhere the clock.
 */
import { fromErrorMessage } from '#base/errors/error-message.js'
import { type AppError, InvalidRequestError, RuntimeError } from '#base/errors/errors.js'
import { startThread } from '#base/processes/ask-thread.js'
import { type Clock, watchProcessorTime } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import type { TokenBitmask, TokenMask } from '../engine/sampling/token-mask.js'
import type { GrammarSpec } from './grammar-spec.js'
import type { GrammarThreadCommand, GrammarThreadData, GrammarThreadEvent } from './grammar-thread.js'
import { tooComplex } from './heap-limit.js'
import { awaitMask, createMaskBuffer, MASK_STATE } from './mask-buffer.js'
import { largestParts } from './schema/largest-bounds.js'
import type { TokenTable } from './token-table.js'
import { readTriggers, triggeredMask } from './triggered-mask.js'

export interface GrammarLimits {
  /** Processor time of compiling, the vocabulary not counted. */
  readonly compileMs: number
  /** WebAssembly memory of one grammar, compiled and in use, beyond what the vocabulary takes. */
  readonly maxBytes: number
  /** JavaScript heap of its thread, as its own code keeps it. */
  readonly maxHeapBytes: number
}

const MIB = 2 ** 20
export const DEFAULT_GRAMMAR_LIMITS: GrammarLimits = { compileMs: 2000, maxBytes: 96 * MIB, maxHeapBytes: 96 * MIB }

/** V8's own limit, which only ends the thread where it is lucky: beyond what `maxHeapBytes` and one large text can come to. */
const HEAP_CEILING_MIB = 512
/** Most of what a thread allocates is short-lived and small: more is only memory that stays. */
const YOUNG_MIB = 8

/** A longer text is refused unread: nothing of that size compiles within the limits. */
const MAX_TEXT_LENGTH = 512 * 1024
const WATCH_MS = 50
/** A mask takes well below a millisecond and is made while the model computes: so long a step waits for one that is late. */
const MASK_GRACE_MS = 2
/** How often a choice that sits out looks for its mask. */
const MASK_POLL_MS = 5
/** Processor time after which a thread that makes one mask is lost. */
const MASK_LIMIT_MS = 10_000

export interface Grammar {
  /** Keywords of its schemas that answers are not held to, with their places: of lax schemas only. */
  readonly unheld: readonly string[]
  /** Choices that use it now. */
  readonly openCount: number
  /** Its thread has ended: masks fail. */
  readonly isDead: boolean
  /** What it holds now, WebAssembly memory: that of its thread is about as large as what of this is not used. */
  readonly bytes: number
  /** The mask of a choice that begins; `close` it when the choice ends. */
  open(): TokenMask & { close(): void }
  /** Ends the thread; masks fail from now on. */
  dispose(): Promise<void>
}

/**
 * Compiles a grammar in a thread of its own.
 *
 * @throws {InvalidRequestError} `unsupported_schema` naming the keyword; `invalid_grammar` with the library's reason; `grammar_too_complex` at a limit
 */
export async function compileGrammar(
  spec: GrammarSpec,
  table: TokenTable,
  options: { readonly clock: Clock; readonly limits?: GrammarLimits },
): Promise<Grammar> {
  const limits = options.limits ?? DEFAULT_GRAMMAR_LIMITS
  assertReadable(spec)
  const usedKib = new SharedArrayBuffer(4)
  const { maxBytes, maxHeapBytes } = limits
  const data: GrammarThreadData = { spec, table, maxBytes, maxHeapBytes, usedKib }
  const resourceLimits = { maxOldGenerationSizeMb: HEAP_CEILING_MIB, maxYoungGenerationSizeMb: YOUNG_MIB }
  const thread = startThread('inference/grammar/grammar-thread.js', { workerData: data, resourceLimits })
  const { promise, resolve, reject } = createDeferred<readonly string[]>()
  const watch = createWatch(limits, options.clock, reject)
  let threadId: number | null = null
  thread.on('message', (event: GrammarThreadEvent) => {
    if (event.type === 'working') {
      threadId = event.threadId
      watch.start(threadId)
    } else if (event.type === 'resting') watch.stop()
    else if (event.type === 'compiled') resolve(event.unheld)
    else if (event.type === 'unreadable') reject(fromErrorMessage(event.error))
    else if (event.isMemoryExhausted) reject(tooComplex('needs too much memory'))
    else reject(refusal(event.printed, event.reason))
  })
  let isDead = false
  thread.once('error', (error) =>
    reject(
      'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
        ? tooComplex('needs too much memory')
        : new RuntimeError('grammar_failed', 'the thread of a grammar failed', { cause: error }),
    ),
  )
  thread.once('exit', () => {
    isDead = true
    reject(new RuntimeError('grammar_failed', 'the thread of a grammar ended'))
  })
  let unheld: readonly string[]
  try {
    unheld = await promise
  } catch (error) {
    await thread.terminate()
    throw withLargestParts(error, spec)
  } finally {
    watch.stop()
  }
  const send = (command: GrammarThreadCommand): void => thread.postMessage(command)
  const vocabularySize = table.offsets.byteLength / 4 - 1
  const trigger = (spec.kind === 'structural_tag' ? spec.trigger : null) ?? null
  const vocabulary = trigger === null ? null : readTriggers(trigger, table)
  let nextChoice = 0
  let openCount = 0
  return {
    unheld,
    get openCount() {
      return openCount
    },
    get isDead() {
      return isDead
    },
    get bytes() {
      return (new Int32Array(usedKib)[0] ?? 0) * 1024
    },
    open: () => {
      const choice = nextChoice++
      const buffer = createMaskBuffer(vocabularySize)
      let expected = 1
      let isOpen = true
      openCount++
      send({ type: 'open', choice, memory: buffer.memory })
      const stateNow = (timeoutMs: number): number | null => awaitMask(buffer, expected, timeoutMs)
      const followed: TokenMask = {
        ready: () => {
          if (isDead || !isOpen || stateNow(MASK_GRACE_MS) !== null) return null
          const use = watchProcessorTime(threadId, options.clock)
          return new Promise((resolve) => {
            const timer = setInterval(() => {
              if (!isDead && isOpen && stateNow(0) === null) {
                if (use() <= MASK_LIMIT_MS) return
                // it may never answer: nobody else shall wait for it
                isDead = true
                void thread.terminate()
              }
              clearInterval(timer)
              resolve()
            }, MASK_POLL_MS)
          })
        },
        next: (): TokenBitmask => {
          if (isDead || !isOpen) throw new RuntimeError('grammar_failed', 'the grammar of a request is gone')
          const state = stateNow(MASK_LIMIT_MS)
          if (state === MASK_STATE.allowed) return buffer.words
          const reason = state === null ? 'did not answer in time' : 'does not allow the token that was taken'
          throw new RuntimeError('grammar_failed', `the grammar of a request ${reason}`)
        },
        accept: (tokenId) => {
          expected++
          send({ type: 'accept', choice, tokenId })
        },
      }
      const mask = trigger === null || vocabulary === null ? followed : triggeredMask(followed, trigger, vocabulary)
      return Object.assign(mask, {
        close: () => {
          if (!isOpen) return
          isOpen = false
          openCount--
          send({ type: 'close', choice })
        },
      })
    },
    dispose: async () => {
      isDead = true
      await thread.terminate()
    },
  }
}

function assertReadable(spec: GrammarSpec): void {
  const length = JSON.stringify(spec).length
  if (length <= MAX_TEXT_LENGTH) return
  throw tooComplex(`is ${Math.ceil(length / 1024)} KiB of text, at most ${MAX_TEXT_LENGTH / 1024} are read`)
}

/** What is too complex is named as far as it can be told. */
function withLargestParts(error: unknown, spec: GrammarSpec): unknown {
  if (!(error instanceof InvalidRequestError) || error.code !== 'grammar_too_complex') return error
  const parts = largestParts(spec)
  if (parts.length === 0) return error
  const { code, message, hint, cause } = error
  const named = `${message}; its largest parts are ${parts.join('; ')}`
  return new InvalidRequestError(code, named, { ...(hint === undefined ? {} : { hint }), cause })
}

/** Counts the processor time of a thread's work, which may rest in between, and rejects at the limit. */
function createWatch(
  { compileMs }: GrammarLimits,
  clock: Clock,
  reject: (error: AppError) => void,
): { start(threadId: number | null): void; stop(): void } {
  let spentMs = 0
  let use = (): number => 0
  let timer: NodeJS.Timeout | undefined
  return {
    start: (threadId) => {
      use = watchProcessorTime(threadId, clock)
      timer = setInterval(() => {
        if (spentMs + use() <= compileMs) return
        reject(tooComplex(`takes more than ${compileMs} ms of processor time to compile`))
      }, WATCH_MS)
      timer.unref()
    },
    stop: () => {
      spentMs += use()
      use = () => 0
      clearInterval(timer)
    },
  }
}

/** The library's own words are on the lines it printed before it aborted: `[FATAL] /path/file.cc:12: words`. */
function refusal(printed: string, thrown: string): AppError {
  const fatal = printed
    .split('\n')
    .filter((line) => line.startsWith('[FATAL]'))
    .at(-1)
  // thrown by the library without a word, it is an address
  const said = /^\d+$/.test(thrown) ? 'the compiler gives no reason' : thrown
  const reason = (fatal ?? said).replace(/^\[FATAL\] \S+?:\d+: /, '').replace(/Check failed: \(.*?\) is \w+: /, '')
  return new InvalidRequestError(
    'invalid_grammar',
    `the grammar of the request cannot be compiled: ${reason.slice(0, 500)}`,
  )
}
