/**
 * vLLM behind the wire of engine nodes: requests go through as they are, adapters are loaded before they are needed, and loaded once more
 * when vLLM has dropped one.
 *
 * When vLLM ends it is started again, less and less often if it ends again and again; meanwhile the node is not ready.
 */
import { mkdir } from 'node:fs/promises'
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import { readAdapter, writeAdapter } from '#model/weights/adapter.js'
import { uniformAdapter } from '#model/weights/uniform-adapter.js'
import type { AdapterFolder } from './adapter-folder.js'
import { readBytes } from './http-text.js'
import type { NodeEngine } from './node-engine.js'
import { startVllm, type VllmProcess, type VllmProcessOptions } from './vllm-process.js'

export interface VllmNodeOptions {
  readonly vllm: VllmProcessOptions
  readonly adapters: AdapterFolder
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
  device,
  onChange,
}: VllmNodeOptions): Promise<NodeEngine> {
  let vllm = await startVllm(options)
  let isReady = false
  let isClosed = false
  /** Adapters that vLLM was given, each with the one request that does so. */
  const loaded = new Map<string, Promise<void>>()
  let facts: Facts
  let active = 0
  const whenIdle: (() => void)[] = []

  try {
    await vllm.ready
    facts = await readFacts(vllm.url)
  } catch (error) {
    vllm.kill()
    throw error
  }
  isReady = true
  void keepAlive(vllm)

  async function keepAlive(first: VllmProcess): Promise<void> {
    let deaths = 0
    for (let current = first; !isClosed; ) {
      const startedMs = performance.now()
      const health = watchHealth(current)
      const how = await current.ended
      health.stop()
      isReady = false
      loaded.clear()
      if (isClosed) return
      onChange(`vLLM ${how}`)
      deaths = performance.now() - startedMs > STABLE_AFTER_MS ? 1 : deaths + 1
      await sleep(deaths === 1 ? 0 : Math.min(MAX_BACKOFF_MS, 1000 * 2 ** (deaths - 2)))
      if (isClosed) return
      current = await startVllm(options)
      vllm = current
      const isUp = await current.ready.then(
        () => true,
        () => false,
      )
      if (!isUp) continue
      isReady = true
      onChange(null)
    }
  }

  async function send(body: Buffer, response: ServerResponse): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = requestHttp(new URL('/inference/v1/generate', vllm.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-length': body.length },
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

  function load(digest: string): Promise<void> {
    const before = loaded.get(digest)
    if (before !== undefined) return before
    const loading = loadAdapter(vllm.url, digest, adapters)
    loaded.set(digest, loading)
    loading.catch(() => loaded.get(digest) === loading && loaded.delete(digest))
    return loading
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const adapter = request.headers['x-trainyard-adapter']
    const body = await readBytes(request)
    if (typeof adapter === 'string') await load(adapter)
    let answered = await send(body, response)
    if (answered.statusCode === 404 && typeof adapter === 'string') {
      // dropped by vLLM, whatever the reason: once more, then it is said
      answered.resume()
      loaded.delete(adapter)
      await load(adapter)
      answered = await send(body, response)
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
      return [...loaded.keys()]
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
    dropAdapter: async (digest) => {
      loaded.delete(digest)
      await post(vllm.url, '/v1/unload_lora_adapter', { lora_name: digest }).catch(() => undefined)
    },
    idle: () => (active === 0 ? Promise.resolve() : new Promise((resolve) => whenIdle.push(resolve))),
    close: async () => {
      isClosed = true
      vllm.kill()
      await vllm.ended
    },
  }
}

async function loadAdapter(url: string, digest: string, adapters: AdapterFolder): Promise<void> {
  const folder = await folderFor((await adapters.ensure(digest)).folder)
  const { status, text } = await post(url, '/v1/load_lora_adapter', {
    lora_name: digest,
    lora_path: folder,
  })
  // it has been there all the time
  if (status === 200 || (status === 400 && text.includes('already been loaded'))) return
  throw new AppError('unavailable', 'adapter_failed', `vLLM could not load the adapter: ${text.slice(0, 500)}`, {
    hint: 'is its rank beyond --max-lora-rank?',
  })
}

/** The folder that vLLM reads: it knows one rank for all modules, and would scale the others wrongly without a word. */
async function folderFor(folder: string): Promise<string> {
  const adapter = await readAdapter(folder)
  if (adapter.config.rankPattern === undefined) return folder
  const uniform = join(folder, 'uniform')
  await mkdir(uniform, { recursive: true, mode: 0o700 })
  await writeAdapter(uniform, uniformAdapter(adapter), { baseModelName: 'base' })
  return uniform
}

async function post(
  url: string,
  path: string,
  body: object,
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

interface Facts {
  readonly version: string
  readonly contextLength: number
}

/** @throws {AppError} `vllm_version` for one whose wire is not known */
async function readFacts(url: string): Promise<Facts> {
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
