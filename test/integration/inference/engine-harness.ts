/**
 * An engine on the tiny random model, and what its listeners hear.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRng } from '#base/util/rng.js'
import type { EngineOptions, RunnerOptions } from '#inference/engine/engine.js'
import { createEngine, type Engine } from '#inference/engine/engine.js'
import type {
  AdapterSource,
  GenerationRequest,
  GenerationRules,
  PromptTokenEvent,
  TokenEvent,
} from '#inference/engine/generation.js'
import { PROJECTIONS, projectionPath, projectionShape } from '#model/architectures/decoder-config.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createAdapter } from '#model/weights/adapter.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Feeds, Runtime } from '#numerics/runtime/runtime.js'
import { GREEDY, RANDOM } from '../../support/generation-rules.js'

export { GREEDY, RANDOM }

/** Prepares the tiny model in a directory of its own. */
export async function prepareTiny(): Promise<{ prepared: PreparedModel; remove: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'engine-'))
  const source = await ensureTinyRandomModel(join(directory, 'model'))
  const prepared = await prepareBaseModel(source, join(directory, 'prepared'), ['f32', 'int8'])
  return { prepared, remove: () => rm(directory, { recursive: true, force: true, maxRetries: 20 }) }
}

export function engineFor(
  prepared: PreparedModel,
  options: Partial<EngineOptions & RunnerOptions> = {},
): Promise<Engine> {
  return createEngine({
    runtime: createOrtRuntime(),
    prepared,
    precision: 'f32',
    threads: 1,
    maxContextLength: null,
    maxConcurrentSequences: 4,
    eosTokenIds: [256],
    speculation: 'off',
    ...options,
  })
}

/** A runtime that counts the tokens of each step. */
export function countingRuntime(defaults: Parameters<typeof createOrtRuntime>[0] = {}): {
  readonly runtime: Runtime
  readonly steps: number[]
} {
  const steps: number[] = []
  const real = createOrtRuntime(defaults)
  const runtime: Runtime = {
    ...real,
    async loadSession(path, options) {
      const session = await real.loadSession(path, options)
      return {
        inputNames: session.inputNames,
        outputNames: session.outputNames,
        release: () => session.release(),
        run(feeds, fetches) {
          steps.push(feeds['ids']?.shape[0] ?? 0)
          return session.run(feeds, fetches)
        },
      }
    },
  }
  return { runtime, steps }
}

/**
 * A runtime that does on the CPU what is done for a device: graphs are rewritten, and caches have copies beside JavaScript's memory. It
 * counts what a device would be sent: the bytes of tensors that come from there.
 */
export function deviceLikeRuntime(): { readonly runtime: Runtime; readonly sent: { bytes: number } } {
  const cpu = createOrtRuntime()
  const sent = { bytes: 0 }
  const count = (feeds: Feeds): void => {
    for (const tensor of Object.values(feeds)) if ('data' in tensor) sent.bytes += tensor.data.byteLength
  }
  const runtime: Runtime = {
    ...cpu,
    device: 'webgpu',
    async loadSession(model, options) {
      const session = await cpu.loadSession(model, { ...options, device: 'cpu' })
      const run: typeof session.run = (feeds, fetches) => {
        count(feeds)
        return session.run(feeds, fetches)
      }
      return { ...session, run }
    },
    async loadResident(model, options) {
      const session = await cpu.loadResident(model, { ...options, device: 'cpu' })
      if (session === null) return null
      const run: typeof session.run = (feeds) => {
        count(feeds)
        return session.run(feeds)
      }
      return { ...session, run }
    },
  }
  return { runtime, sent }
}

/** What one request got. */
export interface Outcome {
  readonly cachedTokens: number
  readonly events: readonly TokenEvent[]
  readonly promptEvents: readonly PromptTokenEvent[]
  readonly abortedChoices: readonly number[]
  readonly error: Error | null
  /** Token ids of a choice. */
  ids(choice?: number): number[]
  logprobs(choice?: number): number[]
}

let counter = 0

/** Submits a request and waits for its end. */
export function generate(
  engine: Engine,
  promptTokenIds: readonly number[],
  rules: GenerationRules = GREEDY,
  extra: Partial<GenerationRequest> & { readonly onToken?: (event: TokenEvent) => boolean } = {},
): Promise<Outcome> {
  const { onToken, ...request } = extra
  return new Promise((resolve) => {
    const events: TokenEvent[] = []
    const promptEvents: PromptTokenEvent[] = []
    const abortedChoices: number[] = []
    let cachedTokens = 0
    const finish = (error: Error | null): void =>
      resolve({
        cachedTokens,
        events,
        promptEvents,
        abortedChoices,
        error,
        ids: (choice = 0) => events.filter((event) => event.choice === choice).map((event) => event.tokenId),
        logprobs: (choice = 0) => events.filter((event) => event.choice === choice).map((event) => event.logprob),
      })
    engine.submit(
      { id: `request-${counter++}`, promptTokenIds, rules, adapter: null, cacheSalt: null, ...request },
      {
        onStarted: (tokens) => {
          cachedTokens = tokens
        },
        onPromptToken: (event) => promptEvents.push(event),
        onToken: (event) => {
          events.push(event)
          return onToken?.(event) ?? true
        },
        onAborted: (choice) => abortedChoices.push(choice),
        onFinished: () => finish(null),
        onFailed: finish,
      },
    )
  })
}

/** What an answer is asked with. */
export interface Asked {
  readonly prompt: readonly number[]
  readonly adapter: AdapterSource | null
}

let company = 0

/**
 * An answer while others run: they have begun before it does and end after it.
 *
 * @returns its tokens
 */
export async function answerAmong(
  engine: Engine,
  watched: Asked & { readonly rules: GenerationRules },
  others: readonly Asked[],
): Promise<readonly TokenEvent[]> {
  const ids = others.map(() => `company-${company++}`)
  const begun: Promise<void>[] = []
  const running = others.map(({ prompt, adapter }, i) => {
    let begin: () => void = () => undefined
    begun.push(new Promise((resolve) => (begin = resolve)))
    const onToken = (): boolean => {
      begin()
      return true
    }
    const outcome = generate(engine, prompt, { ...GREEDY, maxTokens: 450 }, { id: ids[i] as string, adapter, onToken })
    return outcome.then(({ error }) => {
      begin()
      if (error !== null) throw error
    })
  })
  await Promise.all(begun)
  const { prompt, adapter, rules } = watched
  const answer = await generate(engine, prompt, rules, { adapter })
  for (const id of ids) engine.abort(id)
  await Promise.all(running)
  if (answer.error !== null) throw answer.error
  return answer.events
}

/** An adapter with random B. */
export function randomAdapter(prepared: PreparedModel, seed: number, rank: number): AdapterSource {
  const modules = Array.from({ length: prepared.config.layerCount }, (_, layer) =>
    PROJECTIONS.map((projection) => {
      const [outputSize, inputSize] = projectionShape(prepared.config, projection)
      return { path: projectionPath(layer, projection), outputSize, inputSize }
    }),
  ).flat()
  const fresh = createAdapter(modules, { rank, alpha: 2 * rank, seed })
  const rng = createRng(seed)
  const b = new Map([...fresh.b].map(([path, data]) => [path, data.map(() => 0.3 * rng.normal())]))
  return { digest: `adapter-${seed}`, load: async () => ({ ...fresh, b }) }
}

/** A prompt of `length` tokens that differs by `seed`. */
export function promptOf(length: number, seed = 0): number[] {
  return Array.from({ length }, (_, i) => (i * 31 + seed * 17 + ((i * i) % 13)) % 250)
}

/** Largest difference of two lists of equal length. */
export function maxDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY
  return a.reduce((max, value, i) => Math.max(max, Math.abs(value - (b[i] ?? Number.NaN))), 0)
}
