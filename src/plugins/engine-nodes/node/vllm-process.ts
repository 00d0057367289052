/**
 * One `vllm serve` with all of its processes, from its start to its end.
 */
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { bundlePath } from '#base/processes/entry.js'
import { readProgram, spawnProcess } from '#base/processes/start-process.js'
import { MAX_VLLM_LOGPROBS } from '#inference/remote/generate-body.js'

export interface VllmProcessOptions {
  /** Program, for example `/opt/vllm/bin/vllm`. */
  readonly command: string
  /** Folder of the base model. */
  readonly modelPath: string
  /** Adapters in a batch, and in memory. */
  readonly maxLoras: number
  readonly maxCpuLoras: number
  readonly maxLoraRank: number
  readonly maxContextLength: number | null
  readonly maxSequences: number
  /** More arguments, as the user gave them: they come last and win. */
  readonly extraArgs: readonly string[]
  readonly environment: Environment
  /** What it writes, line by line. */
  readonly onLine?: (line: string) => void
}

export interface VllmProcess {
  /** Where it answers, on loopback. */
  readonly url: string
  /** Of the leader of its group. */
  readonly pid: number
  /** Resolves when it answers. @throws {AppError} `vllm_failed` with the end of what it wrote, if it ends before */
  readonly ready: Promise<void>
  /** Resolves with how it ended. */
  readonly ended: Promise<string>
  /** Ends every process of its group at once. */
  kill(): void
}

/** Characters of its output that are kept, the last ones. */
const KEPT_CHARACTERS = 8000
const LOOK_MS = 250
/** It imports half of PyTorch first. */
const VERSION_MS = 300_000

export async function startVllm(options: VllmProcessOptions): Promise<VllmProcess> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const leader = spawnProcess(
    process.execPath,
    [bundlePath('plugins/engine-nodes/node/group-leader.js'), options.command, ...vllmArgs(options, port)],
    {
      detached: true,
      inherits: {
        environment: options.environment,
        needs: ['computing', 'python'],
        given: {
          VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
          VLLM_NO_USAGE_STATS: '1',
          DO_NOT_TRACK: '1',
          HF_HUB_OFFLINE: '1',
          TRANSFORMERS_OFFLINE: '1',
        },
      },
      // its stdin is what tells it of our end
      stdio: ['pipe', 'ignore', 'pipe'],
    },
  )
  let said = ''
  leader.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-KEPT_CHARACTERS)
    for (const line of text.split('\n')) if (line.trim() !== '') options.onLine?.(line)
  })
  leader.stdin?.on('error', () => undefined)
  let isEnded = false
  const ended = new Promise<string>((resolve) => {
    const end = (how: string): void => {
      isEnded = true
      resolve(how)
    }
    leader.once('error', (error) => end(`could not be started: ${error.message}`))
    leader.once('close', () => end('ended'))
  })
  const pid = leader.pid ?? 0

  async function untilReady(): Promise<void> {
    while (!isEnded) {
      const isUp = await fetch(`${url}/health`).then(
        ({ ok }) => ok,
        () => false,
      )
      if (isUp) return
      await sleep(LOOK_MS)
    }
    throw new AppError('unavailable', 'vllm_failed', `vLLM ended before it was ready: ${said.trim().slice(-2000)}`, {
      hint: 'look at what it wrote; arguments for it come behind --',
    })
  }

  const ready = untilReady()
  ready.catch(() => undefined)
  return {
    url,
    pid,
    ready,
    ended,
    kill: () => {
      if (pid === 0 || isEnded) return
      try {
        process.kill(-pid, 'SIGKILL')
      } catch {
        // it has just ended
      }
    },
  }
}

/** What the node relies on; its sampling defaults are ours, not those of the model's files. */
function vllmArgs(options: VllmProcessOptions, port: number): readonly string[] {
  const { maxContextLength } = options
  return [
    'serve',
    options.modelPath,
    ...['--host', '127.0.0.1', '--port', String(port)],
    ...['--served-model-name', 'base'],
    '--enable-scale-out',
    ...['--generation-config', 'vllm'],
    ...['--logprobs-mode', 'raw_logprobs', '--max-logprobs', String(MAX_VLLM_LOGPROBS)],
    ...['--scheduling-policy', 'priority'],
    ...['--max-num-seqs', String(options.maxSequences)],
    ...(maxContextLength === null ? [] : ['--max-model-len', String(maxContextLength)]),
    ...['--enable-lora', '--max-loras', String(options.maxLoras), '--max-cpu-loras', String(options.maxCpuLoras)],
    ...['--max-lora-rank', String(options.maxLoraRank)],
    ...options.extraArgs,
  ]
}

/**
 * Whether the program is vLLM's build for processors: only its command says so, the server's version does not. True where the
 * command fails: taken for another build it would give wrong answers, the other way round it costs a small adapter and
 * `prompt_logprobs`.
 */
export async function isForProcessors({
  command,
  environment,
}: Pick<VllmProcessOptions, 'command' | 'environment'>): Promise<boolean> {
  try {
    const said = await readProgram(command, ['--version'], {
      environment,
      needs: ['computing', 'python'],
      timeoutMs: VERSION_MS,
    })
    return /\+cpu\b/.test(said)
  } catch {
    return true
  }
}

/** A port that nobody listens on now: it cannot be told to take any and say which. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
