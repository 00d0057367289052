/**
 * vLLM behind the wire of engine nodes: requests go through as they are, adapters are loaded before they are needed, and loaded once more
 * when vLLM has dropped one.
 *
 * When vLLM ends it is started again, less and less often if it ends again and again; meanwhile the node is not ready.
 */
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import type { AdapterFolder } from './adapter-folder.js'
import { readText } from './http-text.js'
import type { NodeEngine } from './node-engine.js'
import { createVllmAdapters, loadNoChange, NO_CHANGE, writeNoChange } from './vllm-adapters.js'
import { isForProcessors, startVllm, type VllmProcess, type VllmProcessOptions } from './vllm-process.js'

export interface VllmNodeOptions {
  readonly vllm: VllmProcessOptions
  readonly adapters: AdapterFolder
  /** Where it may keep an adapter of its own; a folder. */
  readonly noChangeFolder: string
  /** What it computes on. */
  readonly device: string
  /** It ended, or is back. @param reason null: back */
  readonly onChange: (reason: string | null) => void
}

/** Versions whose wire was run or read (`contract/processes/token-wire.ts`). */
const TESTED = /^0\.3[23]\./
const MAX_BACKOFF_MS = 30_000
/** One that lived this long starts with a clean record. */
const STABLE_AFTER_MS = 60_000
const HEALTH_MS = 5000
/** Failed looks in a row after which it is killed: its engine hangs or is gone. */
const MAX_SICK = 6

/** @throws {AppError} `vllm_failed`, `vllm_version` */
export async function openVllmNode({
  vllm: options,
  adapters,
  noChangeFolder,
  device,
  onChange,
}: VllmNodeOptions): Promise<NodeEngine> {
  let vllm = await startVllm(options)
  let isReady = false
  let isClosed = false
  const given = createVllmAdapters(() => vllm.url, adapters)
  let facts: Facts
  let preparing: Promise<void> | null = null
  let active = 0
  const whenIdle: (() => void)[] = []

  try {
    const isProcessorBuild = device === 'cpu' ? isForProcessors(options) : false
    await vllm.ready
    facts = { ...(await readFacts(vllm.url)), isOnProcessors: await isProcessorBuild }
    if (facts.isOnProcessors) await writeNoChange(options.modelPath, noChangeFolder)
    await prepare()
  } catch (error) {
    vllm.kill()
    throw error
  }
  isReady = true
  void keepAlive(vllm)

  /** What a vLLM that has just started is given. */
  async function prepare(): Promise<void> {
    if (facts.isOnProcessors) await loadNoChange(vllm.url, noChangeFolder)
  }

  /** As above, for all requests at once that find it gone. */
  function prepareAgain(): Promise<void> {
    preparing ??= prepare().finally(() => {
      preparing = null
    })
    return preparing
  }

  async function keepAlive(first: VllmProcess): Promise<void> {
    let deaths = 0
    for (let current = first; !isClosed; ) {
      const startedMs = performance.now()
      const health = watchHealth(current)
      const how = await current.ended
      health.stop()
      isReady = false
      given.clear()
      if (isClosed) return
      onChange(`vLLM ${how}`)
      deaths = performance.now() - startedMs > STABLE_AFTER_MS ? 1 : deaths + 1
      await sleep(deaths === 1 ? 0 : Math.min(MAX_BACKOFF_MS, 1000 * 2 ** (deaths - 2)))
      if (isClosed) return
      current = await startVllm(options)
      vllm = current
      const isUp = await current.ready.then(prepare).then(
        () => true,
        () => false,
      )
      // one that runs and is not what requests need is of no use
      if (!isUp) current.kill()
      if (!isUp) continue
      isReady = true
      onChange(null)
    }
  }

  async function send(body: string, response: ServerResponse): Promise<IncomingMessage> {
    // its end has been told of already, and is not told of again
    if (response.destroyed) throw new AppError('unavailable', 'client_gone', 'whoever asked has hung up')
    return new Promise((resolve, reject) => {
      const request = requestHttp(new URL('/inference/v1/generate', vllm.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      })
      request.once('response', resolve)
      request.once('error', (cause) =>
        reject(new AppError('unavailable', 'engine_restarting', `vLLM does not answer: ${cause.message}`, { cause })),
      )
      // whoever asked is gone: vLLM stops when its connection ends
      response.once('close', () => request.destroy())
      request.end(body)
    })
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const digest = request.headers['x-trainyard-adapter']
    const body = await readText(request)
    if (facts.isOnProcessors && ASKS_FOR_PROMPT.test(body)) throw noPromptLogprobs()
    if (typeof digest !== 'string') {
      let answered = await send(facts.isOnProcessors ? named(body, NO_CHANGE) : body, response)
      if (answered.statusCode === 404 && facts.isOnProcessors) {
        answered.resume()
        await prepareAgain()
        answered = await send(named(body, NO_CHANGE), response)
      }
      return pass(answered, response)
    }
    const first = await given.take(digest)
    try {
      const answered = await send(named(body, first.name), response)
      if (answered.statusCode !== 404) return await pass(answered, response)
      // dropped by vLLM, whatever the reason: once more, then it is said
      answered.resume()
      first.forget()
    } finally {
      first.release()
    }
    const again = await given.take(digest)
    try {
      await pass(await send(named(body, again.name), response), response)
    } finally {
      again.release()
    }
  }

  async function pass(answered: IncomingMessage, response: ServerResponse): Promise<void> {
    if (response.destroyed) {
      answered.destroy()
      return
    }
    response.writeHead(answered.statusCode ?? 500, { 'content-type': answered.headers['content-type'] ?? '' })
    await new Promise<void>((resolve) => {
      answered.pipe(response)
      // cut short by vLLM's end: so is ours, and the host sees it
      answered.once('error', () => response.destroy())
      answered.once('aborted', () => response.destroy())
      response.once('close', resolve)
    })
  }

  return {
    engine: 'vllm',
    contextLength: facts.contextLength,
    slots: options.maxSequences,
    device,
    versions: { trainyard: packageVersion(), vllm: facts.version },
    get isReady() {
      return isReady
    },
    get running() {
      return Math.min(active, options.maxSequences)
    },
    get waiting() {
      return Math.max(0, active - options.maxSequences)
    },
    get adapters() {
      return given.held
    },
    generate: async (request, response) => {
      active += 1
      try {
        await answer(request, response)
      } finally {
        active -= 1
        if (active === 0) for (const resolve of whenIdle.splice(0)) resolve()
      }
    },
    dropAdapter: (digest) => given.drop(digest),
    idle: () => (active === 0 ? Promise.resolve() : new Promise((resolve) => whenIdle.push(resolve))),
    close: async () => {
      isClosed = true
      vllm.kill()
      await vllm.ended
    },
  }
}

/** Text of a client stands in strings, where its quotes are escaped. */
const ASKS_FOR_PROMPT = /"prompt_logprobs":\s*-?\d/

/** Beside other requests the engine ends at it, with all of them (0.32): products with adapters of a prompt count rows as those of answers. */
function noPromptLogprobs(): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_by_engine',
    'prompt_logprobs are not to be had where this model is served by vLLM on processors',
    { param: 'prompt_logprobs', hint: "leave prompt_logprobs out, or serve the model with Trainyard's own engine" },
  )
}

/** A request's body with an adapter's name in it. The field stands behind those of the request's own, as plain text as we wrote it. */
function named(body: string, name: string): string {
  const at = body.lastIndexOf('"model":')
  const end = body.indexOf(',', at)
  return `${body.slice(0, at)}"model":${JSON.stringify(name)}${body.slice(end)}`
}

interface Facts {
  readonly version: string
  /** It is the build for processors, which computes with adapters by products of its own. */
  readonly isOnProcessors: boolean
  readonly contextLength: number
}

/** @throws {AppError} `vllm_version` for one whose wire is not known */
async function readFacts(url: string): Promise<Omit<Facts, 'isOnProcessors'>> {
  const { version } = (await (await fetch(`${url}/version`)).json()) as { readonly version: string }
  if (!TESTED.test(version)) {
    throw new AppError(
      'unavailable',
      'vllm_version',
      `vLLM ${version} is not one of the versions that are known: 0.32, 0.33`,
      {
        hint: 'install vllm==0.33.0; its way to send and get tokens changes from version to version',
      },
    )
  }
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as {
    readonly data: readonly { readonly id: string; readonly max_model_len?: number }[]
  }
  const contextLength = data.find(({ id }) => id === 'base')?.max_model_len ?? 0
  return { version, contextLength }
}

function watchHealth(vllm: VllmProcess): { stop(): void } {
  let sick = 0
  let isLooking = false
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    fetch(`${vllm.url}/health`, { signal: AbortSignal.timeout(HEALTH_MS) })
      .then(
        ({ ok }) => {
          sick = ok ? 0 : sick + 1
        },
        () => {
          sick += 1
        },
      )
      .finally(() => {
        isLooking = false
        if (sick >= MAX_SICK) vllm.kill()
      })
  }, HEALTH_MS)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
