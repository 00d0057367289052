/**
 * Graders in Python, as those who grade see them: a few warm processes, each of one source of one owner, started when they are
 * asked for and ended when nobody has asked for a while.
 *
 * Walls are put up or nothing is run: `walls: 'none'` is for those who said so, `'wanted'` for whoever runs a file of his own.
 */
import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { InvalidRequestError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import { createTurns } from '#base/util/turns.js'
import { GradingError } from '../grade-errors.js'
import type { Namespaces } from '../template.js'
import {
  NoWallsError,
  PYTHON_LIMITS,
  type PythonLimits,
  type PythonOptions,
  type PythonProcess,
  startPythonProcess,
} from './python-process.js'

export interface PythonGraders {
  /** @throws {GradingError} the flags of Python graders */
  grade(source: string, namespaces: Namespaces, asking: Asking): Promise<number>
  /**
   * Compiles the source without running it. @throws {InvalidRequestError} `invalid_grader` with what is wrong; {NoWallsError}
   */
  check(source: string, asking: Asking & { readonly param: string }): Promise<void>
  /** Starts a process and ends it. @throws {NoWallsError} */
  tryWalls(): Promise<void>
  /** Ends all processes. */
  stop(): Promise<void>
}

interface Asking {
  /** Whose grader it is: owners share no process. */
  readonly owner?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Processes that wait for another answer. */
const MOST_IDLE = 4
const IDLE_MS = 60_000
const MOST_PAYLOAD_BYTES = 48 * 1024 ** 2
const NEVER = new AbortController().signal

export function createPythonGraders(
  given: Omit<PythonOptions, 'limits'> & {
    readonly walls: 'needed' | 'wanted' | 'none'
    /** Is told once why there are no walls, where they were wanted. */
    readonly onNoWalls?: ((why: string) => void) | undefined
    readonly limits?: Partial<PythonLimits> | undefined
  },
): PythonGraders {
  const options: PythonOptions = { ...given, limits: { ...PYTHON_LIMITS, ...given.limits } }
  const turns = createTurns({
    what: 'answers for Python graders',
    atOnce: Math.max(1, Math.min(4, availableParallelism() - 1)),
    spare: 1,
    mostWaiting: Number.POSITIVE_INFINITY,
    mostOfOneKey: Number.POSITIVE_INFINITY,
  })
  const idle = createIdle()
  const busy = new Set<PythonProcess>()
  let isWalled = given.walls !== 'none'
  let isStopped = false

  async function start(source: string): Promise<PythonProcess> {
    try {
      return await startPythonProcess(source, { options, isWalled })
    } catch (error) {
      if (!(error instanceof NoWallsError) || !isWalled || given.walls !== 'wanted') throw error
      isWalled = false
      given.onNoWalls?.(error.message)
      return await startPythonProcess(source, { options, isWalled })
    }
  }

  /** Works with a process of the source, when it is the owner's turn. */
  async function withProcess<T>(
    source: string,
    { owner = '', signal = NEVER }: Asking,
    work: (process: PythonProcess) => Promise<T>,
  ): Promise<T> {
    const key = createHash('sha256')
      .update(JSON.stringify([owner, source]))
      .digest('hex')
    return await turns.take(owner, signal, async () => {
      const process = idle.take(key) ?? (await start(source))
      busy.add(process)
      try {
        // it may have been ended while the interpreter started
        if (isStopped) throw new GradingError('python_grader_server_error', 'the graders were ended')
        return await work(process)
      } finally {
        busy.delete(process)
        if (isStopped || !process.isAlive()) void process.stop()
        else idle.keep(key, process)
      }
    })
  }

  return {
    async grade(source, { sample, item }, asking) {
      const payload = stringifyExact({ sample, item })
      if (Buffer.byteLength(payload) > MOST_PAYLOAD_BYTES) {
        throw new GradingError('other_error', `row and answer have more than ${MOST_PAYLOAD_BYTES} bytes`)
      }
      try {
        return await withProcess(source, asking, async (process) => await process.score(payload, asking.signal))
      } catch (error) {
        if (!(error instanceof NoWallsError)) throw error
        throw new GradingError('python_grader_server_error', error.message)
      }
    },
    async check(source, { param, ...asking }) {
      const { problem, missing } = await withProcess(source, asking, async ({ facts }) => await Promise.resolve(facts))
      if (problem === null && missing.length === 0) return
      const names = missing.slice(0, 10).join(', ')
      const message = problem ?? `imports what ${given.python} does not have: ${names}`
      throw new InvalidRequestError('invalid_grader', `${param}: ${message}`, {
        param,
        hint: problem === null ? 'install it for the interpreter of --python, or import it inside of try' : undefined,
      })
    },
    async tryWalls() {
      await (await start('')).stop()
    },
    async stop() {
      isStopped = true
      const all = [...busy, ...idle.leaveAll()]
      await Promise.all(all.map(async (process) => await process.stop()))
    },
  }
}

/** Processes that wait for another answer, until they have waited for long. */
function createIdle() {
  /** Longest idle first. */
  let idle: { readonly key: string; readonly process: PythonProcess; readonly timer: NodeJS.Timeout }[] = []
  function leave(one: (typeof idle)[number]): PythonProcess {
    clearTimeout(one.timer)
    idle = idle.filter((each) => each !== one)
    return one.process
  }
  return {
    take(key: string): PythonProcess | null {
      const found = idle.findLast((each) => each.key === key && each.process.isAlive())
      return found === undefined ? null : leave(found)
    },
    keep(key: string, process: PythonProcess): void {
      const timer = setTimeout(() => void leave(kept).stop(), IDLE_MS).unref()
      const kept = { key, process, timer }
      idle.push(kept)
      const [oldest] = idle
      if (idle.length > MOST_IDLE && oldest !== undefined) void leave(oldest).stop()
    },
    leaveAll: (): readonly PythonProcess[] => idle.map(leave),
  }
}
