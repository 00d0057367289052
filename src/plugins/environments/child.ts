/**
 * A program of somebody else at the other end of pipes, a JSON value a line: in a process group of its own, which is killed
 * as a whole, with bounded lines, the end of what it wrote on stderr kept, and no variable of ours but PATH, HOME and LANG.
 *
 * Knows two ways to use it: messages in both directions, and questions with an id that are answered in any order.
 */
import { type Environment, readEnvironment } from '#base/environment.js'
import { endOf } from '#base/processes/child.js'
import { spawnPiped } from '#base/processes/start-process.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { endTree } from '#cli/local/user-program.js'
import { EnvironmentFailure } from './failures.js'
import type { SourceSetup } from './source.js'
import { type Door, walled } from './walls.js'

/** Characters of the longest line, and of stderr that are kept. */
const LONGEST_LINE = 16 * 1024 * 1024
const KEPT_CHARACTERS = 4000
/** Time for an end in order, milliseconds. */
const CLOSE_MS = 2000
/** What every process sees of our environment; Windows starts nothing without its own. */
const SEEN = ['PATH', 'HOME', 'LANG', 'SYSTEMROOT', 'SYSTEMDRIVE', 'COMSPEC', 'PATHEXT', 'TEMP', 'TMP', 'USERPROFILE']

interface ChildSetup {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd?: string
  readonly variables: Environment
  /** The caller's; default this process's. */
  readonly environment?: Environment
  /** As messages call it. */
  readonly name: string
}

/** Groups that run, to be killed when this process ends in whatever way it can notice. */
const running = new Set<ReturnType<typeof spawnPiped>>()
let isWatching = false

export interface LineChild {
  send(message: JsonValue): void
  /** The end of what it wrote on stderr. */
  complaints(): string
  /** Told of each line; a line that is no JSON, or too long, is a failure that ends the child. */
  onMessage: (message: JsonValue) => void
  /** Told once, when it has ended. */
  onEnd: (failure: EnvironmentFailure) => void
  readonly hasEnded: boolean
  /** Kills its whole group. @param why what its `onEnd` is told; default that it crashed */
  kill(why?: EnvironmentFailure): void
  /** Closes its stdin, and kills what is left after two seconds. */
  close(): Promise<void>
}

/** What a program of somebody else sees: these of ours, and what was given to it. */
export function seenVariables({ environment, variables }: Pick<SourceSetup, 'environment' | 'variables'>): Environment {
  const seen = Object.entries(environment).filter(([key]) => SEEN.includes(key.toUpperCase()))
  return { ...Object.fromEntries(seen), ...variables }
}

export function startLineChild(setup: ChildSetup): LineChild {
  const { command, args, environment = readEnvironment(), variables, name } = setup
  const process_ = spawnPiped(command, args, {
    inherits: { environment: seenVariables({ environment, variables }), needs: 'everything' },
    detached: process.platform !== 'win32',
    ...(setup.cwd === undefined ? {} : { cwd: setup.cwd }),
  })
  watch(process_)
  let [complaints, length, hasEnded] = ['', 0, false]
  let parts: string[] = []
  let reason: EnvironmentFailure | null = null
  let hasSpoken = false
  const child: LineChild = {
    send(message) {
      if (!hasEnded) process_.stdin.write(`${JSON.stringify(message)}\n`)
    },
    complaints: () => complaints,
    onMessage: () => undefined,
    onEnd: () => undefined,
    get hasEnded() {
      return hasEnded
    },
    kill(why) {
      reason ??= why ?? null
      endTree(process_)
    },
    async close() {
      if (hasEnded) return
      const ended = new Promise<void>((resolve) => {
        process_.once('close', () => resolve())
      })
      const timer = setTimeout(() => endTree(process_), CLOSE_MS)
      process_.stdin.end()
      await ended
      clearTimeout(timer)
      // what it started may outlive it
      endTree(process_)
    },
  }
  const end = (said: string): void => {
    if (hasEnded) return
    hasEnded = true
    running.delete(process_)
    endTree(process_)
    child.onEnd(
      reason ??
        new EnvironmentFailure('env_crashed', withComplaints(`${name} ${said}`, complaints), { isStart: !hasSpoken }),
    )
  }
  process_.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-KEPT_CHARACTERS)
  })
  process_.stdin.on('error', () => undefined)
  process_.once('error', (error) => end(`could not be started: ${error.message}`))
  process_.once('close', (code, signal) => end(endOf(code, signal)))
  process_.stdout.setEncoding('utf8').on('data', (text: string) => {
    // a long line comes in many parts, which are joined once
    const lines = text.split('\n')
    const first = lines[0] ?? ''
    length += first.length
    parts.push(first)
    if (length > LONGEST_LINE) {
      parts = []
      return child.kill(
        protocolFailure(name, `wrote a line of more than ${LONGEST_LINE / 1024 / 1024} MiB`, complaints),
      )
    }
    if (lines.length === 1) return
    lines[0] = parts.join('')
    const rest = lines.pop() ?? ''
    parts = [rest]
    length = rest.length
    for (const line of lines) {
      if (line.trim() === '' || hasEnded || reason !== null) continue
      const message = parseLine(line)
      if (message === undefined) {
        return child.kill(protocolFailure(name, `wrote a line that is no JSON: "${line.slice(0, 80)}"`, complaints))
      }
      hasSpoken = true
      child.onMessage(message)
    }
  })
  return child
}

function protocolFailure(name: string, said: string, complaints: string): EnvironmentFailure {
  return new EnvironmentFailure('env_protocol', withComplaints(`${name} ${said}`, complaints))
}

function parseLine(line: string): JsonValue | undefined {
  try {
    return JSON.parse(line) as JsonValue
  } catch {
    return undefined
  }
}

/** A sentence with the last lines of stderr behind it. */
function withComplaints(sentence: string, complaints: string): string {
  const last = complaints.trim().split('\n').slice(-6).join('\n').trim()
  return last === '' ? sentence : `${sentence}: ${last}`
}

function watch(child: ReturnType<typeof spawnPiped>): void {
  running.add(child)
  if (isWatching) return
  isWatching = true
  process.on('exit', () => {
    for (const each of running) endTree(each)
  })
}

interface Answering {
  /**
   * @throws {EnvironmentFailure} `env_timeout` (its group is killed), `env_crashed`, `env_protocol`, or `env_error` with
   * what it said
   */
  ask(
    op: string,
    body: JsonObject,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<JsonObject>
  close(): Promise<void>
}

interface Waiting {
  readonly op: string
  readonly resolve: (answer: JsonObject) => void
  readonly reject: (failure: unknown) => void
}

/**
 * A child that answers questions: `{id, op, …}` and then `{id, ok: true, …}` or `{id, ok: false, error}`, in any order. It
 * is started by the first question, and anew by the next one after its end. Questions that were waiting when another one's
 * time was over are asked once more.
 */
export function createAnswering(setup: ChildSetup): Answering {
  let child: LineChild | null = null
  let waiting = new Map<number, Waiting>()
  let next = 0

  function start(): LineChild {
    const started = startLineChild(setup)
    const own = new Map<number, Waiting>()
    waiting = own
    started.onMessage = (message) => {
      const asked = isJsonObject(message) && typeof message['id'] === 'number' ? own.get(message['id']) : undefined
      if (asked === undefined || !isJsonObject(message)) {
        return started.kill(
          protocolFailure(
            setup.name,
            `answered what nobody asked: ${JSON.stringify(message).slice(0, 80)}`,
            started.complaints(),
          ),
        )
      }
      own.delete(Number(message['id']))
      if (message['ok'] === true) return asked.resolve(message)
      asked.reject(
        new EnvironmentFailure(
          'env_error',
          `${setup.name}: ${asked.op}: ${String(message['error'] ?? 'no reason given')}`,
        ),
      )
    }
    started.onEnd = (failure) => {
      if (child === started) child = null
      for (const { reject } of own.values()) reject(failure)
      own.clear()
    }
    return started
  }

  async function askOnce(
    op: string,
    body: JsonObject,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<JsonObject> {
    options.signal?.throwIfAborted()
    child ??= start()
    const asked = child
    next += 1
    const id = next
    return await new Promise<JsonObject>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        options.signal?.removeEventListener('abort', abort)
        own.delete(id)
      }
      const own = waiting
      const timer = setTimeout(() => {
        const late = new EnvironmentFailure(
          'env_timeout',
          `${setup.name}: ${op}: no answer after ${options.timeoutMs / 1000} s`,
        )
        settle()
        reject(late)
        asked.kill(new KilledForAnother(setup.name, op))
      }, options.timeoutMs)
      const abort = (): void => {
        settle()
        reject(options.signal?.reason)
      }
      options.signal?.addEventListener('abort', abort, { once: true })
      own.set(id, {
        op,
        resolve: (answer) => {
          settle()
          resolve(answer)
        },
        reject: (failure) => {
          settle()
          reject(failure)
        },
      })
      asked.send({ id, op, ...body })
    })
  }

  return {
    async ask(op, body, options) {
      try {
        return await askOnce(op, body, options)
      } catch (error) {
        if (!(error instanceof KilledForAnother)) throw error
        return await askOnce(op, body, options)
      }
    },
    async close() {
      await child?.close()
    },
  }
}

/** The group was killed because another question took too long. */
class KilledForAnother extends EnvironmentFailure {
  constructor(name: string, op: string) {
    super('env_crashed', `${name} was ended, as ${op} took too long`)
  }
}

/** What a child of a source is started with, behind walls where they are wanted. */
export function childOf(
  setup: SourceSetup,
  name: string,
  words: readonly [string, ...string[]],
  door?: Door,
): ChildSetup {
  const { variables, environment } = setup
  const [command, ...args] = walled(words, setup, door)
  return { command, args, name, variables, environment }
}
