/**
 * Creates loops, shows them, and says what is to become of them: only rows change, which whoever runs the loop's process sees.
 */
import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { resolveOptions } from '#contract/jobs/resolve.js'
import { advisedOptions, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { checkGrader } from '#plugins/graders/grading/check.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import type { ServiceContext } from '#service/operations/context.js'
import { requestCancel } from '#service/queue/outcome.js'
import type { Database } from '#service/storage/database.js'
import { deleteFileRow, findFile } from '#service/storage/files.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findModel } from '#service/storage/models.js'
import type { LoopOwner, LoopService, LoopSpec } from './loop-service.js'
import {
  announceEnd,
  changeLoop,
  countUnended,
  findLoop,
  insertLoop,
  insertLoopEvent,
  type LoopTenant,
  listLeftFiles,
  listLoopEvents,
  listLoops,
  type StoredLoop,
  UNENDED,
} from './storage/loops.js'
import { listEvaluations } from './storage/steps.js'

/** Loops of one entity that have not ended. */
const MOST_UNENDED = 32
/** Of a file of rows. */
const MOST_FILE_BYTES = 200 * 1024 ** 2

type Context = Pick<ServiceContext, 'db' | 'ids' | 'signals' | 'dispatcher' | 'modelFacts' | 'logger' | 'activity'>

/** Loops of an entity can be asked for, too: whose key sees all of its projects. */
interface LoopsOfTenants extends LoopService {
  /** @param repeated what an `Idempotency-Key` made before is answered again */
  create(
    owner: LoopOwner,
    spec: LoopSpec,
    id?: string,
    repeated?: { readonly scope: IdempotencyScope; readonly digest: string } | null,
  ): Promise<StoredLoop>
  get(owner: LoopTenant, id: string): Promise<StoredLoop>
  list(
    owner: LoopTenant,
    page: { readonly after: string | null; readonly limit: number; readonly modelId?: string | undefined },
  ): Promise<readonly StoredLoop[]>
  pause(owner: LoopTenant, id: string): Promise<StoredLoop>
  resume(owner: LoopTenant, id: string): Promise<StoredLoop>
  cancel(owner: LoopTenant, id: string): Promise<StoredLoop>
  evaluations(
    owner: LoopTenant,
    id: string,
    choice: Parameters<LoopService['evaluations']>[2],
  ): ReturnType<LoopService['evaluations']>
  events(
    owner: LoopTenant,
    id: string,
    page: { readonly after: string | null; readonly limit: number },
  ): ReturnType<LoopService['events']>
}

export function createLoopService(context: Context): LoopsOfTenants {
  const { db, ids } = context

  async function say(to: Database, id: string, message: string): Promise<void> {
    await insertLoopEvent(to, id, { id: ids.uuid(), type: 'message', level: 'info', message, data: {} })
  }

  async function told(changed: Promise<StoredLoop>): Promise<StoredLoop> {
    const loop = await changed
    tellOfLoop(context, loop)
    return loop
  }

  /** Changes a loop that has not ended. @throws {ConflictError} `loop_ended` */
  async function change(
    owner: LoopTenant,
    id: string,
    act: (transaction: Database, loop: StoredLoop) => Promise<void>,
  ): Promise<StoredLoop> {
    return await told(
      inTransaction(db, async (transaction) => {
        const loop = await requireLoop(transaction, owner, id)
        if (!UNENDED.some((status) => status === loop.status)) {
          throw new ConflictError('loop_ended', `loop "${loop.id}" is ${loop.status} already`)
        }
        await act(transaction, loop)
        return await requireLoop(transaction, owner, id)
      }),
    )
  }

  return {
    async create(owner, spec, id = ids.uuid(), repeated = null): Promise<StoredLoop> {
      const given = await resolveSpec(context, owner, spec)
      return await told(
        inTransaction(db, async (transaction) => {
          const earlier = repeated === null ? null : await findIdempotent(transaction, repeated.scope, repeated.digest)
          const before = await findLoop(transaction, owner, earlier ?? id)
          if (before !== null) return before
          if ((await countUnended(transaction, owner.entity)) >= MOST_UNENDED) {
            throw new AppError('rate_limited', 'queue_full', `${MOST_UNENDED} loops have not ended already`, {
              hint: 'wait for loops to end, or cancel some',
            })
          }
          await insertLoop(transaction, { id, owner, spec: given })
          if (repeated !== null) await rememberIdempotent(transaction, repeated.scope, repeated.digest, id)
          await say(transaction, id, `Loop of ${given.steps} steps created`)
          return await requireLoop(transaction, owner, id)
        }),
      )
    },
    get: async (owner, id) => await requireLoop(db, owner, id),
    list: async (owner, { after, limit, modelId }) =>
      (await listLoops(db, owner, { after: after ?? undefined, limit, modelId })).items,
    pause: async (owner, id) =>
      await change(owner, id, async (transaction, loop) => {
        if (loop.status === 'paused') return
        if (loop.status === 'running') return await changeLoop(transaction, loop.id, { is_pause_asked: 1 })
        await changeLoop(transaction, loop.id, { status: 'paused' })
        await say(transaction, loop.id, 'Loop paused')
      }),
    resume: async (owner, id) =>
      await told(
        inTransaction(db, async (transaction) => {
          const loop = await requireLoop(transaction, owner, id)
          if (loop.isPauseAsked) await changeLoop(transaction, loop.id, { is_pause_asked: 0 })
          if (loop.status === 'paused') {
            // limits count from here
            const spent = JSON.stringify({ ...loop.spent, before: loop.spent })
            await changeLoop(transaction, loop.id, { status: 'queued', spent })
            await say(transaction, loop.id, 'Loop resumed')
          }
          return await requireLoop(transaction, owner, id)
        }),
      ),
    async cancel(owner, id) {
      const cancelled = await change(owner, id, async (transaction, loop) => {
        await changeLoop(transaction, loop.id, { status: 'cancelled', hasEnded: true })
        await announceEnd(transaction, ids, loop, 'cancelled')
        await say(transaction, loop.id, 'Loop cancelled')
      })
      await cancelJob(context, cancelled)
      await forgetFiles(db, cancelled)
      return cancelled
    },
    evaluations: async (owner, id, choice) => {
      const loop = await requireLoop(db, owner, id)
      return await listEvaluations(db, loop.id, choice)
    },
    events: async (owner, id, { after, limit }) => {
      const loop = await requireLoop(db, owner, id)
      return (await listLoopEvents(db, loop.id, { after: after ?? undefined, limit })).items
    },
  }
}

async function requireLoop(from: Database, tenant: LoopTenant, id: string): Promise<StoredLoop> {
  const loop = await findLoop(from, tenant, id)
  if (loop !== null) return loop
  throw new NotFoundError('loop_not_found', `loop "${id.slice(0, 100)}" was not found`)
}

/** Tells whoever follows the server how far a loop is. */
export function tellOfLoop({ activity }: Pick<Context, 'activity'>, loop: StoredLoop): void {
  const { id, owner, spec, status, phase, step, jobId } = loop
  const data = { loop_id: id, status, phase, step, training_job_id: jobId }
  activity.publish({ type: 'loop.changed', owner, modelId: spec.modelId, data })
}

/** Cancels the job that a loop's step made, if it runs. */
export async function cancelJob(
  { db, ids, signals, dispatcher, logger }: Context,
  { jobId }: Pick<StoredLoop, 'jobId'>,
): Promise<void> {
  if (jobId === null) return
  try {
    await requestCancel(db, ids, jobId)
    signals.notify(jobId)
    dispatcher.wake()
  } catch (error) {
    // it has ended, or is gone
    const isOver = error instanceof ConflictError || error instanceof NotFoundError
    if (!isOver) logger.error({ err: error, job_id: jobId }, 'loop.job_not_cancelled')
  }
}

/** A process that was killed, and a loop that is cancelled, leave files of groups. */
export async function forgetFiles(db: Database, loop: StoredLoop): Promise<void> {
  const isOver = UNENDED.every((status) => status !== loop.status)
  const { graded } = loop.progress as { readonly graded?: { readonly fileId: string } | null }
  const left = await listLeftFiles(db, loop, isOver ? null : (graded?.fileId ?? null))
  for (const id of left) await deleteFileRow(db, id)
}

/** A loop's process holds its rows in memory. @throws {InvalidRequestError} `file_too_large` */
export function assertFits({ id, sizeBytes }: { readonly id: string; readonly sizeBytes: number }): void {
  if (sizeBytes <= MOST_FILE_BYTES) return
  throw new InvalidRequestError(
    'file_too_large',
    `file "${id}" has ${sizeBytes} bytes, a loop takes ${MOST_FILE_BYTES}`,
    {
      hint: 'take fewer rows: a step asks some of them',
    },
  )
}

/** What is to be done, complete: options of jobs that nobody named are those that were measured for models of this size. */
async function resolveSpec(
  { db, modelFacts }: Pick<Context, 'db' | 'modelFacts'>,
  owner: LoopOwner,
  spec: LoopSpec,
): Promise<LoopSpec> {
  const model = await findModel(db, spec.modelId)
  if (model === null || model.entity !== owner.entity || model.project !== owner.project) {
    throw new NotFoundError('model_not_found', `model "${spec.modelId.slice(0, 100)}" was not found`)
  }
  for (const id of [spec.promptsFileId, ...(spec.heldOutFileId === null ? [] : [spec.heldOutFileId])]) {
    const file = await findFile(db, { entity: owner.entity, project: null }, { id })
    if (file === null || (file.project !== null && file.project !== owner.project)) {
      throw new NotFoundError('file_not_found', `file "${id.slice(0, 100)}" was not found`, {
        hint: 'upload it with POST /v1/files and purpose fine-tune',
      })
    }
    assertFits(file)
  }
  checkGrader(readGrader(spec.grader))
  const given = spec.training
  resolveOptions('rl', given)
  const advised: JsonObject = { ...given, ...advisedOptions('rl', given) }
  const training = { ...advised, ...sizeDefaults('rl', advised, await modelFacts.parametersOf(model.baseModel)) }
  return { ...spec, modelId: model.id, training }
}
