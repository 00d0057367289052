/**
 * Runs a process for each loop that wants one: claims loops, starts their processes, writes what they report, ends those whose
 * loop was cancelled or paused, and starts lost ones again, each time a little later.
 */
import { readEnvironment } from '#base/environment.js'
import { endOf, startChild } from '#base/processes/child.js'
import type { ServiceContext } from '#service/operations/context.js'
import { deleteSession, insertSession, newSessionToken } from '#service/storage/access/sessions.js'
import { findApiKeyById } from '#service/storage/api-keys.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { cancelJob, forgetFiles, tellOfLoop } from './loops.js'
import type { FromProcess, LoopQuestion, LoopStart, ToProcess } from './messages.js'
import { claimLoop, type LoopAttempt, listDueLoops, listHeld, releaseLoop, renewLoop } from './storage/claims.js'
import { findGrades, forgetOldGrades, rememberGrade } from './storage/grades.js'
import { changeLoop, findAnyLoop, type StoredLoop } from './storage/loops.js'
import { failLoop, writeReport } from './storage/reports.js'
import { listNewestEvaluations } from './storage/steps.js'
import type { LoopTiming } from './timing.js'
import type { CallTool } from './tools.js'

export interface LoopSupervisor {
  /** Looks what is to be done; never rejects. */
  look(): Promise<void>
  /** Ends all processes; their loops go on by the next server. */
  stop(): Promise<void>
}

type Context = Parameters<typeof cancelJob>[0] &
  Pick<ServiceContext, 'db' | 'ids' | 'logger' | 'clock' | 'activity'> & { readonly callTool: CallTool }

interface Running extends LoopAttempt {
  readonly child: ReturnType<typeof startChild>
  renewedAtMs: number
  /** And what follows from it is done. */
  readonly ended: Promise<unknown>
}

const PROCESS = 'plugins/loops/process/main.js'
/** Loops that run side by side on a server; others wait. */
const MOST_PROCESSES = 4
/** Losses without a step between them after which a loop has failed. */
const MOST_LOSSES = 8
const LONGEST_WAIT_MS = 60_000
/** A loop that takes longer signs in anew with its next process. */
const SESSION_MS = 30 * 24 * 3_600_000

/** @param url where the server listens, for its own children */
export function createLoopSupervisor(context: Context, url: string, timing: LoopTiming): LoopSupervisor {
  const { db, ids, logger, clock } = context
  const running = new Map<string, Running>()
  let looking: Promise<void> | null = null
  let isStopped = false

  async function lookOnce(): Promise<void> {
    await watchRunning()
    if (running.size >= MOST_PROCESSES) return
    for (const id of await listDueLoops(db, MOST_PROCESSES)) {
      if (isStopped || running.size >= MOST_PROCESSES) return
      // one that is only just ending
      if (running.has(id)) continue
      const claimed = await claimLoop(db, id, timing.leaseMs)
      if (claimed !== null) await begin(claimed)
    }
  }

  /** Renews leases, and ends processes whose loops are no longer theirs. */
  async function watchRunning(): Promise<void> {
    const held = await listHeld(db, [...running.values()])
    for (const run of running.values()) {
      const isHeld = held.some(({ id, attempt }) => id === run.id && attempt === run.attempt)
      const isDue = clock.monotonicMs() - run.renewedAtMs > timing.leaseMs / 3
      if (isHeld && isDue) run.renewedAtMs = clock.monotonicMs()
      const isOwn = isHeld && (!isDue || (await renewLoop(db, run, timing.leaseMs)))
      if (!isOwn) run.child.kill('SIGKILL')
    }
  }

  async function begin(claimed: LoopAttempt): Promise<void> {
    const loop = await findAnyLoop(db, claimed.id)
    if (loop === null) return
    await forgetOldGrades(db)
    const token = await signIn(context, loop)
    if (token === null) {
      const message = 'the key that the loop was created with is gone, and nothing can be counted to it'
      await failLoop(db, ids, claimed, { code: 'key_not_found', message })
      return
    }
    if (isStopped) return
    launch(claimed, loop, { token, isEvaluated: (await listNewestEvaluations(db, [loop.id])).size > 0 })
  }

  function launch(claimed: LoopAttempt, loop: StoredLoop, how: Pick<LoopStart, 'token' | 'isEvaluated'>): void {
    const { id, spec, step, baseStep, progress } = loop
    const { entity, project } = loop.owner
    const known = { id, entity, project, spec, step, baseStep, progress }
    const { child, ended } = startProcess(context, claimed, { type: 'start', url, ...how, ...known })
    const after = ended
      .then((how) => onEnd(claimed, how))
      .catch((error: unknown) => logger.error({ err: error, loop_id: id }, 'loop.end_failed'))
      .finally(() => running.delete(id))
    running.set(id, { ...claimed, child, renewedAtMs: clock.monotonicMs(), ended: after })
    logger.info({ loop_id: id, attempt: claimed.attempt, pid: child.pid }, 'loop.process_started')
  }

  /** A process has ended: its loop did, or paused, or the process was lost. */
  async function onEnd(claimed: LoopAttempt, how: string): Promise<void> {
    const loop = await findAnyLoop(db, claimed.id)
    if (loop === null || loop.attempt !== claimed.attempt) return
    if (loop.sessionId !== null) await deleteSession(db, loop.sessionId)
    await forgetFiles(db, loop)
    if (loop.status === 'cancelled') await cancelJob(context, loop)
    if (loop.status !== 'running') return
    if (isStopped) return void (await releaseLoop(db, claimed, { waitMs: 0, isLoss: false }))
    if (loop.losses + 1 >= MOST_LOSSES) {
      const message = `the loop's process was lost ${MOST_LOSSES} times in one step; the last one: ${how}`
      return await failLoop(db, ids, claimed, { code: 'loop_failed', message })
    }
    logger.warn({ loop_id: claimed.id, attempt: claimed.attempt, reason: how }, 'loop.process_lost')
    const waitMs = Math.min(LONGEST_WAIT_MS, timing.retryMs * 2 ** loop.losses)
    await releaseLoop(db, claimed, { waitMs, isLoss: true })
  }

  return {
    look: async () => {
      if (isStopped) return
      looking ??= lookOnce()
        .catch((error: unknown) => logger.error({ err: error }, 'loop.look_failed'))
        .finally(() => {
          looking = null
        })
      await looking
    },
    stop: async () => {
      isStopped = true
      await looking
      for (const { child } of running.values()) child.kill('SIGKILL')
      await Promise.all([...running.values()].map(({ ended }) => ended))
    },
  }
}

/** A session of the loop's key, in place of that of the process before. @returns null where the key is gone */
async function signIn(
  { db, ids }: Pick<Context, 'db' | 'ids'>,
  { id, owner, sessionId }: StoredLoop,
): Promise<string | null> {
  const token = newSessionToken(ids)
  const session = ids.uuid()
  return await inTransaction(db, async (transaction) => {
    if (sessionId !== null) await deleteSession(transaction, sessionId)
    const tenant = { entity: owner.entity, project: null }
    const key = owner.keyId === null ? null : await findApiKeyById(transaction, tenant, owner.keyId)
    if (key === null) return null
    const made = { id: session, keyId: key.id, scope: 'write', name: `loop ${id}`, expiresInMs: SESSION_MS } as const
    await insertSession(transaction, made, token)
    await changeLoop(transaction, id, { session_id: session })
    return token
  })
}

/** Starts a process and answers what it asks. @returns also how it ends, as the end of a sentence */
function startProcess(context: Context, claimed: LoopAttempt, start: LoopStart) {
  const child = startChild(PROCESS, { environment: readEnvironment(), isBehind: true })
  let failure: string | null = null
  const say = (message: ToProcess): void => void child.send(message, () => undefined)
  child.on('message', (message: FromProcess) => {
    if (message.type === 'failed') {
      failure = message.message
      return
    }
    const { number } = message
    answer(context, claimed, message.question).then(
      (said) => say({ type: 'answer', number, answer: said, error: null }),
      (error: unknown) => {
        context.logger.error({ err: error, loop_id: claimed.id }, 'loop.report_failed')
        const words = error instanceof Error ? error.message : String(error)
        say({ type: 'answer', number, answer: null, error: words })
      },
    )
  })
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`))
    child.once('exit', (code, signal) => resolve(failure ?? endOf(code, signal)))
  })
  say(start)
  return { child, ended }
}

/** What a process asks of its server. */
async function answer(
  context: Pick<Context, 'db' | 'ids' | 'activity' | 'callTool'>,
  claimed: LoopAttempt,
  question: LoopQuestion,
): Promise<unknown> {
  const { db, ids, callTool } = context
  if (question.kind === 'call') {
    const loop = await findAnyLoop(db, claimed.id)
    const tool = loop?.spec.tools?.find(({ name }) => name === question.call.name)
    const isOwn = loop?.attempt === claimed.attempt && loop.status === 'running'
    if (loop === null || tool === undefined || !isOwn) return { dropped: 'the loop has ended' }
    return await callTool(tool, question.call, loop.owner.entity)
  }
  if (question.kind === 'grades') return await findGrades(db, question.digests)
  if (question.kind === 'remember') return await rememberGrade(db, question.digest, question.graded)
  const order = await writeReport(db, ids, claimed, question.report)
  const loop = await findAnyLoop(db, claimed.id)
  if (loop !== null) tellOfLoop(context, loop)
  return order
}
