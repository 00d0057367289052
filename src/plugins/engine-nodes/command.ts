/**
 * `trainyard engine-node`: computes answers for a service on this machine, until Ctrl-C. Holds no data of its own but base models
 * and adapters that it fetched.
 */
import { join, resolve } from 'node:path'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { NODE_ENGINES, SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { EngineNodeEvent } from './node-process.js'

const MINUTE_MS = 60_000
/** Below what service managers wait before they kill. */
const DRAIN_MS = 20_000
const MAX_ADAPTERS = 64
const MAX_LORAS = 8
const MAX_LORA_RANK = 64

export const engineNode = defineCommand({
  path: ['engine-node'],
  summary: 'Answer chats of a service on another machine',
  details:
    "Computes tokens of one base model for the service of --server, which keeps everything else: chat templates, tools, models, keys. The service must run with --engines remote or auto, and reach this machine. The key needs scope worker (trainyard keys create --scope worker). Base model and adapters are fetched. With --engine vllm the node starts vllm serve and ends all of its processes with itself; arguments behind -- are vLLM's. Stopped, it takes nothing new and gives what runs --drain to end.",
  examples: [
    [
      'trainyard engine-node --server https://train.example --api-key-file worker.key --base-model trainyard/spark',
      "our own engine on another machine's cores",
    ],
    [
      'trainyard engine-node --base-model Qwen/Qwen3-8B --engine vllm --vllm /opt/vllm/bin/vllm -- --tensor-parallel-size 2',
      'vLLM on two cards; address and key from the environment',
    ],
  ],
  args: { vllmArgs: argument.rest('arguments of vllm serve, behind --') },
  flags: {
    baseModel: flag.required('--base-model <name>', 'base model of the service that is served here', {
      what: 'a base model of the service',
      hint: 'trainyard base-models list shows them',
    }),
    engine: flag.choice(NODE_ENGINES)('--engine <onnx|vllm>', 'what computes; default onnx', { default: 'onnx' }),
    name: flag.text('--name <name>', "what lists call it; default the machine's name"),
    listen: flag.text('--listen <host:port>', 'where it listens; default any port of the address towards the service'),
    url: flag.text('--url <url>', 'where the service reaches it; default where it listens'),
    threads: flag.setting('threads'),
    precision: flag.setting('precision'),
    maxContextLength: flag.setting('max-context-length'),
    maxSequences: flag.setting('max-sequences'),
    kvCacheMemory: flag.setting('kv-cache-memory'),
    vllm: flag.text('--vllm <path>', 'the program vllm; default vllm'),
    maxAdapters: flag.integer(1, 1000)('--max-adapters <n>', 'adapters that are kept; default 64', {
      default: MAX_ADAPTERS,
    }),
    maxLoras: flag.integer(1, 256)('--max-loras <n>', 'adapters in one batch of vLLM; default 8'),
    maxLoraRank: flag.integer(1, 512)('--max-lora-rank <n>', 'largest rank that vLLM takes; default 64'),
    cacheDir: flag.text('--cache-dir <path>', 'where fetched files are kept; default $XDG_CACHE_HOME/trainyard'),
    retry: flag.duration('--retry <duration>', 'how long a server that is away is tried; default 1m', {
      default: MINUTE_MS,
    }),
    drain: flag.duration('--drain <duration>', 'when stopped, how long answers may go on; default 20s', {
      default: DRAIN_MS,
    }),
  },
  exits: [],
  next: ['trainyard system-check'],
  async run({ connect, config, output, environment, signal, flags, args }) {
    refuseOthers(flags.engine, {
      // what stands in the environment or a file is for all commands
      '--threads': ['onnx', config.resolve('threads').source === 'flag'],
      '--precision': ['onnx', config.resolve('precision').source === 'flag'],
      '--kv-cache-memory': ['onnx', config.resolve('kv-cache-memory').source === 'flag'],
      '--vllm': ['vllm', flags.vllm !== undefined],
      '--max-loras': ['vllm', flags.maxLoras !== undefined],
      '--max-lora-rank': ['vllm', flags.maxLoraRank !== undefined],
    })
    const listen = parseListen(flags.listen)
    const client = await connect()
    // address, key and name are right before anything is started
    await client.engineNodes.baseModelFiles(flags.baseModel)
    const { hostname } = await import('node:os')
    const { startEngineNode } = await import('./node-process.js')
    const name = (flags.name ?? hostname()).slice(0, 128) || 'engine'
    const node = startEngineNode({
      start: {
        serverUrl: client.baseUrl.replace(/\/+$/, ''),
        apiKey: client.connection().apiKey ?? '',
        name,
        baseModel: flags.baseModel,
        engine: flags.engine,
        host: listen.host,
        port: listen.port,
        url: flags.url ?? null,
        directory: resolve(flags.cacheDir ?? join(config.paths.cacheDir, 'engine-node')),
        maxAdapters: flags.maxAdapters,
        patienceMs: flags.retry,
        maxContextLength: config.get('max-context-length'),
        maxSequences: config.get('max-sequences') ?? SERVICE_DEFAULTS.maxConcurrentSequences,
        threads: config.get('threads'),
        precision: config.get('precision') ?? SERVICE_DEFAULTS.precision,
        kvCacheBytes: config.get('kv-cache-memory'),
        vllm: {
          command: flags.vllm ?? 'vllm',
          args: flags.engine === 'vllm' ? args.vllmArgs : refuseArguments(args.vllmArgs),
          maxLoras: flags.maxLoras ?? MAX_LORAS,
          maxLoraRank: flags.maxLoraRank ?? MAX_LORA_RANK,
        },
      },
      environment,
      onEvent: (event) => {
        if (output.mode === 'json') output.event(toJson(event), null)
        else if (event.type === 'starting') output.status(`${name}: ${event.what}`)
        else if (event.type === 'ready') {
          output.status(
            `${name} answers for ${client.baseUrl} at ${event.url} (${event.engine} on ${event.device}). Press Ctrl-C to stop.`,
          )
        } else if (event.type === 'server_away') output.warning(`${event.reason}; tried again`)
        else if (event.type === 'store_unreached') output.warning(event.reason)
        else if (event.type === 'server_back') output.status('The server is back')
        else if (event.type === 'engine_away') output.warning(`${event.reason}; started again`)
        else output.status('vLLM is back')
      },
    })
    signal.addEventListener(
      'abort',
      () => {
        output.status('Stopping: nothing new is taken; press Ctrl-C again to stop at once.')
        node.stop(flags.drain)
      },
      { once: true },
    )
    await node.ended
  },
})

/** `host:port`, `:port` or `[address]:port`. */
function parseListen(text: string | undefined): { readonly host: string | null; readonly port: number } {
  if (text === undefined) return { host: null, port: 0 }
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) {
    throw new InvalidRequestError('invalid_value', `--listen: expected host:port, got "${text}"`, {
      param: '--listen',
      hint: 'for example 0.0.0.0:8650, with --url http://this-machine:8650',
    })
  }
  return { host: match[1] ?? (match[2] === '' ? null : (match[2] ?? null)), port }
}

/** Flags of the engine that does not compute here. @param given by flag: whose it is, and whether it was given */
function refuseOthers(engine: NodeEngine, given: Readonly<Record<string, readonly [NodeEngine, boolean]>>): void {
  for (const [name, [owner, isGiven]] of Object.entries(given)) {
    if (!isGiven || owner === engine) continue
    throw new InvalidRequestError('invalid_value', `${name} has no effect with --engine ${engine}`, {
      param: name,
      hint: `leave ${name} out, or add --engine ${owner}`,
    })
  }
}

type NodeEngine = (typeof NODE_ENGINES)[number]

/** Nothing is accepted without effect. */
function refuseArguments(given: readonly string[]): readonly string[] {
  if (given.length === 0) return given
  throw new InvalidRequestError('invalid_value', `"${given.join(' ')}" is for vLLM, which does not compute here`, {
    hint: 'add --engine vllm, or leave it out',
  })
}

const toJson = (event: EngineNodeEvent): JsonObject => ({ ...event })
