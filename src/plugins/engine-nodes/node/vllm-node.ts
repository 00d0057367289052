/**
 * vLLM behind the wire of engine nodes: requests go through as they are, adapters are loaded before they are needed, and loaded
 * once more when vLLM has dropped one.
 *
 * When vLLM ends it is started again, less and less often if it ends again and again; meanwhile the node is not ready.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import type { AdapterFolder } from './adapter-folder.js'
import type { NodeEngine } from './node-engine.js'
import { createVllmAdapters, loadNoChange, writeNoChange } from './vllm-adapters.js'
import { isForProcessors, startVllm, type VllmProcess, type VllmProcessOptions } from './vllm-process.js'
import { createVllmRequests } from './vllm-requests.js'

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
export async function openVllmNode(node: VllmNodeOptions): Promise<NodeEngine> {
  const { vllm: options, device, noChangeFolder } = node
  const first = await startVllm(options)
  const kept = keepVllm(first, node)
  const given = createVllmAdapters(() => kept.url, node.adapters)
  let facts: Facts
  /** What a vLLM that has just started is given. */
  const prepare = async (): Promise<void> => {
    if (facts.isOnProcessors) await loadNoChange(kept.url, noChangeFolder)
  }
  try {
    const isProcessorBuild = device === 'cpu' ? isForProcessors(options) : false
    await first.ready
    facts = { ...(await readFacts(first.url)), isOnProcessors: await isProcessorBuild }
    if (facts.isOnProcessors) await writeNoChange(options.modelPath, noChangeFolder)
    await prepare()
  } catch (error) {
    first.kill()
    throw error
  }
  kept.begin({ prepare, ended: given.clear })
  const answer = createVllmRequests({ url: () => kept.url, given, prepare, isOnProcessors: facts.isOnProcessors })
  let active = 0
  const whenIdle: (() => void)[] = []
  return {
    engine: 'vllm',
    contextLength: facts.contextLength,
    slots: options.maxSequences,
    device,
    versions: { trainyard: packageVersion(), vllm: facts.version },
    get isReady() {
      return kept.isReady
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
    close: kept.close,
  }
}

/** vLLM that is started again when it ends. */
interface KeptVllm {
  /** Of the one that runs. */
  readonly url: string
  readonly isReady: boolean
  /** The first one is ready, and watched from now on. */
  begin(hooks: {
    /** Gives one that has just started what requests need. */
    prepare(): Promise<void>
    /** One has ended, with all that it was given. */
    ended(): void
  }): void
  close(): Promise<void>
}

function keepVllm(
  first: VllmProcess,
  { vllm: options, onChange }: Pick<VllmNodeOptions, 'vllm' | 'onChange'>,
): KeptVllm {
  let vllm = first
  let isReady = false
  let isClosed = false

  async function keepAlive({ prepare, ended }: Parameters<KeptVllm['begin']>[0]): Promise<void> {
    let deaths = 0
    for (let current = first; !isClosed; ) {
      const startedMs = performance.now()
      const health = watchHealth(current)
      const how = await current.ended
      health.stop()
      isReady = false
      ended()
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

  return {
    get url() {
      return vllm.url
    },
    get isReady() {
      return isReady
    },
    begin: (hooks) => {
      isReady = true
      void keepAlive(hooks)
    },
    close: async () => {
      isClosed = true
      vllm.kill()
      await vllm.ended
    },
  }
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
