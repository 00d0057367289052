/**
 * An engine node: listens, fetches its base model, loads it, and tells the server of itself until it is told to stop.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, stat, utimes } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Environment, readEnvironment } from '#base/environment.js'
import { toErrorMessage } from '#base/errors/error-message.js'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { readProgram } from '#base/processes/start-process.js'
import { systemClock } from '#base/util/clock.js'
import { systemIds } from '#base/util/ids.js'
import type { EngineNodeReport } from '#contract/processes/engine-node.js'
import { fetchBaseModel } from '#model/weights/fetch-base-model.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { type AdapterFolder, openAdapterFolder } from './adapter-folder.js'
import type { NodeEngine } from './node-engine.js'
import { startNodeServer } from './node-server.js'
import { openOnnxNode } from './onnx-node.js'
import type { NodeEvent, NodeStart } from './protocol.js'
import { createReports } from './reports.js'
import { createServerLink, type ServerLink } from './server-link.js'
import { openVllmNode } from './vllm-node.js'

export interface EngineNodeProcess {
  /** Resolves when it has stopped. */
  stop(deadlineMs: number): Promise<void>
}

/** How long a node that goes tries to tell the server so. */
const LEAVE_MS = 3000
const STALE_MS = 24 * 3600_000
const TOUCH_MS = 3600_000

/**
 * Starts it; resolves when the server knows it.
 *
 * @param tell hears of what happens from then on
 * @throws {AppError} why it cannot be
 */
export async function startEngineNode(start: NodeStart, tell: (event: NodeEvent) => void): Promise<EngineNodeProcess> {
  const link = createServerLink({
    url: start.serverUrl,
    apiKey: start.apiKey,
    onTrouble: (reason) => tell({ type: 'store_unreached', reason }),
  })
  const identity = { id: systemIds.uuid(), token: randomBytes(32).toString('base64url') }
  let engine: NodeEngine | null = null
  const host = start.host ?? (await addressTowards(start.serverUrl))
  const server = await startNodeServer({ ...identity, host, port: start.port, engine: () => engine })
  const url = start.url ?? `http://${host.includes(':') ? `[${host}]` : host}:${server.address.port}`
  let isLeaving = false
  const adapterDirectory = join(start.directory, 'adapters', identity.id)
  // of another node that lives it is never a day old
  const touch = setInterval(() => {
    const now = systemClock.nowMs() / 1000
    utimes(adapterDirectory, now, now).catch(() => undefined)
  }, TOUCH_MS)
  touch.unref()
  const removeAdapters = async (): Promise<void> => {
    clearInterval(touch)
    await rm(adapterDirectory, { recursive: true, force: true })
  }
  try {
    await removeStale(join(start.directory, 'base-models'), (name) => name.endsWith('.incoming'))
    await removeStale(join(start.directory, 'adapters'), () => true)
    tell({ type: 'starting', what: `fetching base model ${start.baseModel}` })
    const { digest, sourcePath } = await fetchModel(link, start)
    const adapters = await openAdapterFolder({
      list: (adapter) => link.listAdapter(adapter),
      open: (adapter, file) => link.openAdapterFile(adapter, file),
      directory: adapterDirectory,
      most: start.maxAdapters,
      onDrop: async (adapter) => engine?.dropAdapter(adapter),
    })
    tell({ type: 'starting', what: `loading it with ${start.engine === 'vllm' ? 'vLLM' : 'ONNX Runtime'}` })
    const noChangeFolder = join(adapterDirectory, 'no-change')
    const opened = await openEngine(start, { sourcePath, noChangeFolder, adapters, tell: (event) => report(event) })
    engine = opened
    const describe = (): EngineNodeReport => ({
      ...identity,
      name: start.name,
      url,
      engine: opened.engine,
      versions: opened.versions,
      device: opened.device,
      base_model: { name: start.baseModel, digest },
      context_length: opened.contextLength,
      slots: opened.slots,
      running: opened.running,
      waiting: opened.waiting,
      adapters: [...opened.adapters].slice(-1000),
      // one whose engine is gone takes nothing either
      is_leaving: isLeaving || !opened.isReady,
    })
    const reports = createReports({
      link,
      clock: systemClock,
      describe,
      patienceMs: start.patienceMs,
      onAway: (reason) => tell({ type: 'server_away', reason }),
      onBack: () => tell({ type: 'server_back' }),
      onEnd: (error) => void end().finally(() => fail(error)),
    })
    let fail: (error: AppError) => void = () => undefined
    const failed = new Promise<AppError>((resolve) => {
      fail = resolve
    })
    void failed.then((error) => tell({ type: 'failed', error: toErrorMessage(error) }))
    function report(event: NodeEvent): void {
      tell(event)
      reports.now().catch(() => undefined)
    }
    await reports.now()
    reports.start()
    tell({ type: 'ready', url, engine: opened.engine, versions: opened.versions, device: opened.device })

    async function end(): Promise<void> {
      reports.stop()
      await opened.close()
      await server.close()
      await removeAdapters()
    }

    return {
      stop: async (deadlineMs) => {
        isLeaving = true
        await Promise.race([reports.now(), sleep(LEAVE_MS)]).catch(() => undefined)
        await Promise.race([untilQuiet(server, opened), sleep(deadlineMs)])
        await end()
      },
    }
  } catch (error) {
    await server.close()
    await removeAdapters()
    throw error
  }
}

/** What nodes left that were killed. */
async function removeStale(directory: string, isLeft: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(directory).catch(() => [])) {
    const path = join(directory, name)
    const facts = isLeft(name) ? await stat(path).catch(() => null) : null
    if (facts !== null && systemClock.nowMs() - facts.mtimeMs > STALE_MS)
      await rm(path, { recursive: true, force: true })
  }
}

/** Answers are written to their end. */
async function untilQuiet(server: { readonly openRequests: number }, engine: NodeEngine): Promise<void> {
  await engine.idle()
  while (server.openRequests > 0) await sleep(20)
}

async function fetchModel(link: ServerLink, start: NodeStart): Promise<{ digest: string; sourcePath: string }> {
  const directory = join(start.directory, 'base-models')
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const source = link.baseModel(start.baseModel)
  const listing = await source.getBaseModelFiles()
  if (start.engine === 'vllm' && listing.layout === 'file') {
    throw new InvalidRequestError(
      'unsupported_base_model',
      `base model "${start.baseModel}" is a GGUF file, which vLLM does not serve here`,
      {
        hint: 'serve it with --engine onnx, or add the same model as a folder of safetensors',
      },
    )
  }
  const client = { ...source, getBaseModelFiles: async () => listing }
  const sourcePath = await fetchBaseModel({ client, directory, onPart: () => undefined })
  return { digest: listing.digest, sourcePath }
}

interface OpenOptions {
  readonly sourcePath: string
  readonly noChangeFolder: string
  readonly adapters: AdapterFolder
  readonly tell: (event: NodeEvent) => void
}

async function openEngine(
  start: NodeStart,
  { sourcePath, noChangeFolder, adapters, tell }: OpenOptions,
): Promise<NodeEngine> {
  if (start.engine === 'vllm') {
    const device = await cardName(readEnvironment())
    // one more for the one that changes nothing, where there is one
    const own = device === 'cpu' ? 1 : 0
    return openVllmNode({
      vllm: {
        command: start.vllm.command,
        modelPath: sourcePath,
        maxLoras: start.vllm.maxLoras + own,
        maxCpuLoras: Math.max(start.vllm.maxLoras, start.maxAdapters) + own,
        maxLoraRank: start.vllm.maxLoraRank,
        maxContextLength: start.maxContextLength,
        maxSequences: start.maxSequences,
        extraArgs: start.vllm.args,
        environment: readEnvironment(),
        onLine: (line) => process.stderr.write(`${line}\n`),
      },
      adapters,
      noChangeFolder,
      device,
      onChange: (reason) => tell(reason === null ? { type: 'engine_back' } : { type: 'engine_away', reason }),
    })
  }
  return openOnnxNode({
    load: {
      type: 'load',
      baseModel: start.baseModel,
      sourcePath,
      preparedDir: join(start.directory, 'prepared'),
      precision: start.precision,
      threads: start.threads,
      maxContextLength: start.maxContextLength,
      maxConcurrentSequences: start.maxSequences,
      kvCacheBytes: start.kvCacheBytes,
      speculation: 'auto',
    },
    adapters,
    runtime: createOrtRuntime(),
    clock: systemClock,
  })
}

/** The address of this machine by which it reaches the server. @throws {AppError} `server_unreachable` */
function addressTowards(serverUrl: string): Promise<string> {
  const { hostname, port, protocol } = new URL(serverUrl)
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port || (protocol === 'https:' ? 443 : 80)),
    })
    socket.once('error', (cause) =>
      reject(
        new AppError(
          'unavailable',
          'server_unreachable',
          `the server at ${serverUrl} is not reached: ${cause.message}`,
          { cause },
        ),
      ),
    )
    socket.once('connect', () => {
      resolve(socket.localAddress ?? '127.0.0.1')
      socket.destroy()
    })
  })
}

/** Of the first graphics card; `cpu` without one. */
async function cardName(environment: Environment): Promise<string> {
  try {
    const asked = ['--query-gpu=name', '--format=csv,noheader']
    const inherits = { environment, needs: ['computing'] as const, timeoutMs: 10_000 }
    return (await readProgram('nvidia-smi', asked, inherits)).split('\n')[0]?.trim() || 'cpu'
  } catch {
    return 'cpu'
  }
}
