/**
 * One process of `run.py`: started for a source, asked for one score after the other, ended. It outlives an answer that was
 * killed, and is ended itself where it says nothing for longer than an answer may take.
 */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { PASSED_VARIABLE } from '#base/processes/child-environment.js'
import { startProgram } from '#base/processes/program.js'
import { readProgram } from '#base/processes/start-process.js'
import { packageRoot } from '#base/util/package-root.js'
import { GradingError } from '../grade-errors.js'

/**
 * The walls of macOS: what `sandbox-exec` is told. No network, nothing written outside of the grader's folder, and of homes and
 * of what is hidden only the interpreter is read. `run.py` tries whether it holds.
 */
const FOLDERS = 'import sys; print("\\n".join({*sys.path, sys.prefix, sys.base_prefix, sys.executable}))'
const ASKING_MS = 30_000

async function sandboxProfile({
  python,
  environment,
  hidden,
  script,
  folder,
}: {
  readonly python: string
  readonly environment: Environment
  readonly hidden: readonly string[]
  readonly script: string
  readonly folder: string
}): Promise<string> {
  const seen = (await readProgram(python, ['-I', '-c', FOLDERS], { environment, timeoutMs: ASKING_MS })).split('\n')
  const real = async (path: string): Promise<string> => await realpath(path).catch(() => path)
  const all = async (paths: readonly string[]): Promise<string> =>
    (await Promise.all(paths.filter((path) => path.startsWith('/')).map(real))).map(quote).join(' ')
  const homes = ['/Users', '/Volumes', '/private/tmp', '/private/var/folders', environment['HOME'] ?? '']
  return [
    '(version 1)',
    '(allow default)',
    '(deny network*)',
    '(deny file-write*)',
    `(deny file-read-data ${await all(homes)})`,
    `(allow file-read-data ${await all([...seen, dirname(script)])})`,
    `(deny file-read* ${await all(hidden)})`,
    `(allow file-read* file-write* ${await all([folder])})`,
    '(allow file-read* file-write-data (literal "/dev/null"))',
  ].join('\n')
}

const quote = (path: string): string => `(subpath ${JSON.stringify(path)})`

/** What one answer's run may take. */
export interface PythonLimits {
  /** Of the clock, and of a processor. */
  readonly seconds: number
  /** Of address space. */
  readonly bytes: number
  /** Of files, together. */
  readonly fileBytes: number
}

/** What the publisher of the kind allows. */
export const PYTHON_LIMITS: PythonLimits = { seconds: 120, bytes: 2 * 1024 ** 3, fileBytes: 1024 ** 3 }

export interface PythonOptions {
  /** The interpreter: a name that is looked up in PATH, or a path. */
  readonly python: string
  readonly environment: Environment
  /** Folders that no grader may see. */
  readonly hidden: readonly string[]
  readonly limits: PythonLimits
}

/** What a source is told of, before it runs. */
interface SourceFacts {
  /** Null: it can be run. */
  readonly problem: string | null
  /** Modules that it imports and that are not installed. */
  readonly missing: readonly string[]
}

/** The walls cannot be put up, or there is no interpreter. */
export class NoWallsError extends Error {}

export interface PythonProcess {
  readonly facts: SourceFacts
  /** @param payload JSON of `{sample, item}` @throws {GradingError} the flags of Python graders */
  score(payload: string, signal: AbortSignal | undefined): Promise<number>
  isAlive(): boolean
  /** Ends it and what it has started. */
  stop(): Promise<void>
}

type Answer =
  | { readonly score: number }
  | { readonly error: 'runtime' | 'server'; readonly message: string }
  | ({ readonly type: 'ready' } & SourceFacts)
  | { readonly type: 'refused'; readonly message: string }

/** A package that is imported may take long. */
const START_MS = 60_000
/** Beside what an answer may take, to end it. */
const GRACE_MS = 900
/** A process whose input has ended ends by itself. */
const STOP_MS = 500
const LONGEST_ANSWER = 1024 ** 2

/**
 * @param isWalled false: limits alone
 * @throws {NoWallsError} where walls are asked for and do not hold, and where the interpreter cannot be started
 */
export async function startPythonProcess(
  source: string,
  { options, isWalled }: { readonly options: PythonOptions; readonly isWalled: boolean },
): Promise<PythonProcess> {
  const { python, hidden, limits } = options
  const { program, walls, folder, ended } = await startScript(options, isWalled)
  let death: string | null = null
  let isStopping = false
  let hear: ((answer: Answer | null) => void) | null = null
  const settle = (answer: Answer | null): void => {
    const waiting = hear
    hear = null
    waiting?.(answer)
  }
  void ended.then((how) => {
    death = how
    settle(null)
  })
  readAnswers(program.output, settle, () => program.process.kill('SIGKILL'))

  /** Whoever waits for nothing of it is not kept from ending by it. */
  function hold(isHeld: boolean): void {
    const act = isHeld ? 'ref' : 'unref'
    program.process[act]()
    for (const stream of [program.input, program.output, program.process.stderr]) {
      if (stream instanceof Socket) stream[act]()
    }
  }

  /** @returns null where it has ended, or said nothing in time and was ended */
  async function ask(text: string, withinMs: number): Promise<Answer | null> {
    if (death !== null) return null
    hold(true)
    const timer = setTimeout(() => program.process.kill('SIGKILL'), withinMs)
    try {
      return await new Promise<Answer | null>((resolve) => {
        hear = resolve
        const body = Buffer.from(text)
        const head = Buffer.alloc(4)
        head.writeUInt32BE(body.length)
        program.input.write(Buffer.concat([head, body]))
      })
    } finally {
      clearTimeout(timer)
      hold(false)
    }
  }

  async function stop(): Promise<void> {
    isStopping = true
    if (death !== null) return
    hold(true)
    program.input.end()
    const timer = setTimeout(() => program.process.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
  }

  const settings = { source, walls, folder, hidden, ...limits }
  const first = await ask(JSON.stringify(settings), START_MS)
  if (first === null || !('type' in first) || first.type === 'refused') {
    const why = first !== null && 'message' in first ? first.message : `${python} ${death ?? 'said nothing'}`
    await stop()
    const complaints = first === null ? program.complaints().trim().slice(-500) : ''
    throw new NoWallsError(complaints === '' ? why : `${why}: ${complaints}`)
  }
  const { problem, missing } = first
  return {
    facts: { problem, missing },
    async score(payload, signal) {
      // it may have gone while the interpreter started
      signal?.throwIfAborted()
      if (problem !== null) throw new GradingError('python_grader_runtime_error', problem)
      const leave = (): void => void stop()
      signal?.addEventListener('abort', leave, { once: true })
      const answer = await ask(payload, limits.seconds * 1000 + GRACE_MS)
      signal?.removeEventListener('abort', leave)
      signal?.throwIfAborted()
      if (answer === null) {
        throw new GradingError('python_grader_server_error', `the process of the grader ${death ?? 'was ended'}`)
      }
      if ('score' in answer) return answer.score
      if ('error' in answer) throw new GradingError(`python_grader_${answer.error}_error`, answer.message)
      throw new GradingError('python_grader_server_error', 'the process of the grader answered something else')
    },
    isAlive: () => death === null && !isStopping,
    stop,
  }
}

/** Starts the interpreter; what it wrote to disk is gone when it has ended. */
async function startScript({ python, environment, hidden }: PythonOptions, isWalled: boolean) {
  if (process.platform === 'win32') throw new NoWallsError('Windows can neither fork a grader nor limit it')
  const walls = !isWalled ? 'none' : process.platform === 'linux' ? 'namespaces' : 'sandbox'
  const folder = walls === 'namespaces' ? null : await mkdtemp(join(tmpdir(), 'trainyard-grader-'))
  const script = join(packageRoot(), 'src/plugins/graders/grading/python/run.py')
  const seen = { python, environment, hidden, script, folder: folder ?? '' }
  const sandbox = walls === 'sandbox' ? ['sandbox-exec', '-p', await sandboxProfile(seen)] : []
  const [command = python, ...flags] = [...sandbox, python, '-I', script]
  // what an operator passes to children by name is not meant for strangers' code
  const { [PASSED_VARIABLE]: _, ...rest } = environment
  const program = startProgram(command, flags, { environment: rest, isBehind: true })
  const ended = program.ended.then(async (how) => {
    if (folder !== null) await rm(folder, { recursive: true, force: true }).catch(() => undefined)
    return how
  })
  return { program, walls, folder, ended }
}

/** Frames of four bytes of length and JSON. What is none ends the process. */
function readAnswers(output: NodeJS.ReadableStream, onAnswer: (answer: Answer) => void, onFault: () => void): void {
  let kept: Buffer = Buffer.alloc(0)
  output.on('data', (piece: Buffer) => {
    kept = Buffer.concat([kept, piece])
    while (kept.length >= 4) {
      const size = kept.readUInt32BE(0)
      if (size > LONGEST_ANSWER) return onFault()
      if (kept.length < 4 + size) return
      const text = kept.subarray(4, 4 + size).toString('utf8')
      kept = kept.subarray(4 + size)
      onAnswer(JSON.parse(text) as Answer)
    }
  })
}
