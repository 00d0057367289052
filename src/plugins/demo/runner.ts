/**
 * Runs `trainyard demo` beside the service, as a child that asks this server as anybody would: one at a time, for as long as a
 * demo may take, with a session of its own that may write and ends with it.
 *
 * Knows the lines that the command prints with `--json`, and nothing of how it trains.
 */
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { readEnvironment } from '#base/environment.js'
import { AppError, NotFoundError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { dieWithParentFlags } from '#base/processes/entry.js'
import { releaseLifeline } from '#base/processes/lifeline.js'
import { spawnProcess } from '#base/processes/start-process.js'
import { STOP_MESSAGE } from '#base/processes/stop-message.js'
import { packageRoot } from '#base/util/package-root.js'
import type { SessionService } from '#service/operations/access/sessions.js'
import { checkProject, isOwn } from '#service/operations/access/tenant.js'
import type { Principal } from '#service/operations/context.js'
import type { DemoEvent } from './events.js'
import { demoTasks } from './tasks.js'
import type { DemoState, StartDemoRequest } from './wire.js'

/** Longer than the command takes on the slowest of machines. */
const LONGEST_MS = 15 * 60_000
/** A demo that was asked to stop cancels its job first. */
const STOP_MS = 5000
const STDERR_TAIL = 4000
const BASE_MODEL = 'trainyard/spark'
/** Where a model goes whose request names no project. */
const PROJECT = 'default'

const IDLE: DemoState = {
  ...{ object: 'demo', status: 'idle', kind: null, teaches: null },
  ...{ model_id: null, model: null, project: null, step: 0, held_out: [], error_message: null },
}

type ChildProcess = ReturnType<typeof spawnProcess>

interface Run {
  readonly owner: Pick<Principal, 'entity' | 'project'> & { readonly modelProject: string }
  state: DemoState
  /** Ends it and waits for its end; safe to call twice. */
  readonly stop: () => Promise<void>
}

interface DemoRunner {
  /** @throws {AppError} `demo_running` while somebody else's runs; `base_model_not_found` */
  start(principal: Principal, request: StartDemoRequest): Promise<DemoState>
  get(principal: Principal): DemoState
  stop(principal: Principal): Promise<DemoState>
  close(): Promise<void>
}

interface DemoSurroundings {
  readonly sessions: Pick<SessionService, 'codeFor' | 'exchange' | 'delete'>
  readonly baseModels: readonly { readonly name: string }[]
  readonly serverUrl: () => string | null
  readonly logger: Logger
}

export function createDemoRunner({ sessions, baseModels, serverUrl, logger }: DemoSurroundings): DemoRunner {
  let last: Run | null = null
  /** From the decision to start until the child is there, so that two requests start one. */
  let isStarting = false

  const isVisible = (principal: Principal, { owner }: Run): boolean =>
    isOwn(principal, { entity: owner.entity, project: owner.modelProject })
  const own = (principal: Principal): Run | null => (last !== null && isVisible(principal, last) ? last : null)

  async function start(principal: Principal, request: StartDemoRequest): Promise<DemoState> {
    const running = last?.state.status === 'running' ? own(principal) : null
    if (running !== null) return running.state
    const baseModel = request.base_model ?? BASE_MODEL
    const project = checkProject(principal, request.project ?? undefined) ?? PROJECT
    const url = serverUrl()
    if (!baseModels.some(({ name }) => name === baseModel)) {
      const known = baseModels.map(({ name }) => name).join(', ')
      throw new NotFoundError('base_model_not_found', `base model "${baseModel}" is not served here`, {
        param: 'base_model',
        hint: `the demo is made for ${BASE_MODEL}; this server has ${known === '' ? 'none' : known}`,
      })
    }
    if (request.task != null && !demoTasks.some(({ name }) => name === request.task)) {
      throw new NotFoundError('demo_task_not_found', `the demo has no task "${request.task}"`, {
        param: 'task',
        hint: `its tasks are ${demoTasks.map(({ name }) => name).join(', ')}`,
      })
    }
    if (url === null || isStarting || last?.state.status === 'running') {
      throw new AppError('conflict', 'demo_running', 'a demo runs on this server already, one at a time', {
        hint: 'it takes a minute or two: try again then',
      })
    }
    isStarting = true
    try {
      last = await begin(principal, { ...request, base_model: baseModel, project }, url)
      return last.state
    } finally {
      isStarting = false
    }
  }

  async function begin(
    principal: Principal,
    request: StartDemoRequest & { readonly base_model: string; readonly project: string },
    url: string,
  ): Promise<Run> {
    const { entity, project, keyId } = principal
    const { code } = await sessions.codeFor({ entity, project, keyId, scope: 'write' })
    const session = await sessions.exchange({ code, name: 'demo' })
    const kind = request.kind ?? 'rl'
    const { task, seed } = request
    const child = startCommand(session.token, [
      ...['--server', url, '--entity', entity, '--project', request.project, '--base-model', request.base_model],
      ...(kind === 'sft' ? ['--sft'] : []),
      ...(task == null ? [] : ['--task', task]),
      ...(seed == null ? [] : ['--seed', String(seed)]),
    ])
    const run: Run = {
      owner: { entity, project, modelProject: request.project },
      state: { ...IDLE, status: 'running', kind, project: request.project },
      stop: stopperOf(child),
    }
    logger.info({ pid: child.pid, kind }, 'demo.started')
    const timer = setTimeout(() => void run.stop(), LONGEST_MS).unref()
    follow(child, run, () => {
      clearTimeout(timer)
      logger.info({ status: run.state.status, error: run.state.error_message }, 'demo.ended')
      // the session is the demo's own
      sessions.delete(principal, session.id).catch((error: unknown) => logger.warn({ err: error }, 'demo.session_left'))
    })
    return run
  }

  return {
    start,
    get: (principal) => own(principal)?.state ?? IDLE,
    stop: async (principal) => {
      const run = own(principal)
      await run?.stop()
      return run?.state ?? IDLE
    },
    close: async () => await last?.stop(),
  }
}

function startCommand(token: string, flags: readonly string[]): ChildProcess {
  const program = join(packageRoot(), 'bin', 'trainyard.js')
  const child = spawnProcess(process.execPath, [...dieWithParentFlags(), program, 'demo', '--json', ...flags], {
    inherits: { environment: readEnvironment(), given: { TRAINYARD_API_KEY: token, TRAINYARD_NO_INPUT: '1' } },
    // no stdin, both outputs to us, IPC, lifeline (`lifeline.ts`)
    stdio: ['ignore', 'pipe', 'pipe', 'ipc', 'pipe'],
  })
  releaseLifeline(child)
  child.channel?.unref()
  return child
}

function stopperOf(child: ChildProcess): () => Promise<void> {
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => resolve())
    child.once('error', () => resolve())
  })
  let isAsked = false
  return async () => {
    if (!isAsked && child.exitCode === null && child.connected) child.send(STOP_MESSAGE, () => undefined)
    isAsked = true
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
  }
}

/** Keeps the state of a run as its child tells it. */
function follow(child: ChildProcess, run: Run, onEnd: () => void): void {
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-STDERR_TAIL)
  })
  if (child.stdout !== null) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      run.state = afterEvent(run.state, line)
    })
  }
  const end = (how: Pick<DemoState, 'status'> & Partial<DemoState>): void => {
    if (run.state.status !== 'running') return
    run.state = { ...run.state, ...how }
    onEnd()
  }
  child.once('error', (error) => end({ status: 'failed', error_message: error.message }))
  // when its outputs are read to their ends
  child.once('close', (code) => end(code === 0 ? { status: 'completed' } : failureOf(code, errors)))
}

/** An interruption, or the error that the command printed as JSON. */
function failureOf(code: number | null, errors: string): Pick<DemoState, 'status' | 'error_message'> {
  // by SIGTERM, as its exit code says it; by us, where it did not hear
  if (code === 143 || code === null) return { status: 'stopped', error_message: null }
  for (const line of errors.split('\n').reverse()) {
    const said = parse(line)?.['error'] as { readonly message?: unknown } | undefined
    if (typeof said?.message === 'string') return { status: 'failed', error_message: said.message }
  }
  return { status: 'failed', error_message: `the demo's process ended with code ${code}` }
}

function afterEvent(state: DemoState, line: string): DemoState {
  const event = parse(line) as DemoEvent | null
  switch (event?.object) {
    case 'demo.started':
      return { ...state, teaches: event.teaches, model_id: event.model_id, model: event.model }
    case 'demo.measured':
      return { ...state, step: event.step, held_out: withPoint(state.held_out, event.step, event.held_out_reward) }
    case 'demo.step': {
      const { step, held_out_reward: reward } = event
      return { ...state, step, held_out: reward === null ? state.held_out : withPoint(state.held_out, step, reward) }
    }
    case 'demo.finished':
      return { ...state, step: event.step, held_out: [...event.held_out] }
    default:
      return state
  }
}

function withPoint(points: DemoState['held_out'], step: number, reward: number): DemoState['held_out'] {
  return [...points.filter((point) => point.step !== step), { step, reward }]
}

function parse(line: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : null
  } catch {
    return null
  }
}
