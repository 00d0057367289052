/**
 * OpenAI's fine-tuning API: each job is an ordinary SFT or preference job of an ordinary model, or a loop of RL jobs, and a row
 * that keeps OpenAI's fields of the request, to be shown again.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import { AppError, ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { CreateHeaders, TrainingJobService } from '#service/operations/training/training-jobs.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listEvents } from '#service/storage/events.js'
import { unknownCursor } from '#service/storage/paging.js'
import { findJobs } from '#service/storage/training-jobs.js'
import type { CheckGrader } from '../loops/check-grader.js'
import type { LoopService } from '../loops/loop-service.js'
import { createJob } from './create-job.js'
import { assertSupported } from './create-parts.js'
import { fromFineTuningId } from './fine-tuning-id.js'
import { methodOf } from './hyperparameters.js'
import { createJobView, type JobView } from './job-view.js'
import { createReinforcementJob } from './reinforcement/create.js'
import { createReinforcementView, type ReinforcementView } from './reinforcement/view.js'
import { fineTuningJobs } from './storage/jobs.js'
import { fineTuningLoops } from './storage/loops.js'
import { toFineTuningCheckpoint, toFineTuningEvent } from './to-openai.js'
import type {
  CreateFineTuningJobRequest,
  FineTuningCheckpoint,
  FineTuningEvent,
  FineTuningJob,
  FineTuningPageQuery,
} from './wire.js'

interface FineTuningService {
  create(principal: Principal, request: CreateFineTuningJobRequest, headers: CreateHeaders): Promise<FineTuningJob>
  get(principal: Principal, id: string): Promise<FineTuningJob>
  list(principal: Principal, query: FineTuningPageQuery): Promise<List<FineTuningJob>>
  cancel(principal: Principal, id: string): Promise<FineTuningJob>
  /** @throws {InvalidRequestError} `unsupported_method` for any but a reinforcement job */
  pause(principal: Principal, id: string): Promise<FineTuningJob>
  resume(principal: Principal, id: string): Promise<FineTuningJob>
  /** Newest first. */
  events(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningEvent>>
  checkpoints(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningCheckpoint>>
}

/** Jobs read at once while some with certain metadata are looked for. */
const METADATA_PAGE = 100
const EVENT_PREFIX = 'ftevent-'

export function createFineTuningService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'baseModels' | 'modelFacts' | 'engines' | 'lookUp'>,
  {
    models,
    trainingJobs,
    checkGrader,
    toolHosts,
  }: {
    readonly models: ModelService
    readonly trainingJobs: TrainingJobService
    readonly checkGrader: CheckGrader
    readonly toolHosts: readonly string[]
  },
  loops: LoopService,
): FineTuningService {
  const view = createJobView(context)
  const reinforcement = createReinforcementView(context, loops)

  async function change(principal: Principal, id: string, act: 'pause' | 'resume'): Promise<FineTuningJob> {
    const found = await reinforcement.find(principal, id)
    if (found !== null) return reinforcement.toWire(principal, await reinforcement.change(principal, found, act))
    await view.require(principal, id)
    throw new InvalidRequestError('unsupported_method', `only reinforcement jobs ${act}: ${id.slice(0, 100)}`, {
      param: 'fine_tuning_job_id',
    })
  }

  return {
    ...createJobLists(context, view, reinforcement),
    create: async (principal, request, headers) => {
      assertSupported(request)
      const method = methodOf(request)
      if (method !== 'reinforcement') {
        return createJob({ context, models, trainingJobs, view }, principal, { request, method, headers })
      }
      const parts = { context, models, loops, view: reinforcement, checkGrader, toolHosts }
      const { loopId } = await createReinforcementJob(parts, principal, { request, headers })
      const made = await reinforcement.find(principal, loopId)
      if (made === null) throw new ConflictError('job_deleted', 'the job was deleted while it was created')
      return reinforcement.toWire(principal, made)
    },
    get: async (principal, id) => {
      const found = await reinforcement.find(principal, id)
      return found === null ? view.get(principal, id) : reinforcement.toWire(principal, found)
    },
    pause: (principal, id) => change(principal, id, 'pause'),
    resume: (principal, id) => change(principal, id, 'resume'),
    cancel: async (principal, id) => {
      const found = await reinforcement.find(principal, id)
      if (found !== null) {
        return reinforcement.toWire(principal, await reinforcement.change(principal, found, 'cancel'))
      }
      const { job } = await view.require(principal, id)
      try {
        await trainingJobs.cancel(principal, job.id)
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'job_already_finished') throw error
        // OpenAI answers 400 here, and its clients repeat a 409
        throw new InvalidRequestError('job_already_finished', `Job has already ${job.status}: ${id.slice(0, 100)}`)
      }
      return view.get(principal, id)
    },
  }
}

/** Lists of jobs, and of what came of one: its events and checkpoints. */
function createJobLists({ db }: Pick<ServiceContext, 'db'>, view: JobView, reinforcement: ReinforcementView) {
  /** The training job, or loop, of the fine-tuning job after which a list goes on. */
  async function requireCursor(principal: Principal, after: string): Promise<string> {
    const id = fromFineTuningId(after)
    const found = (await fineTuningJobs.find(db, principal, id)) ?? (await fineTuningLoops.find(db, principal, id))
    if (found === null) throw unknownCursor(after)
    return id
  }

  /** Rows of both kinds, newest first: ids say when they were made. */
  async function pageOf(principal: Principal, page: { readonly after: string | undefined; readonly limit: number }) {
    const [jobs, loops] = [
      await fineTuningJobs.list(db, principal, page),
      await fineTuningLoops.list(db, principal, page),
    ]
    const merged = [
      ...jobs.items.map((record) => ({ id: record.jobId, record })),
      ...loops.items.map((record) => ({ id: record.loopId, record })),
    ].sort((a, b) => (a.id < b.id ? 1 : -1))
    const hasMore = jobs.hasMore || loops.hasMore || merged.length > page.limit
    return { items: merged.slice(0, page.limit), hasMore }
  }

  return {
    list: async (principal: Principal, query: FineTuningPageQuery): Promise<List<FineTuningJob>> => {
      const wanted = metadataFilter(query)
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const found: FineTuningJob[] = []
      let after = query.after === undefined ? undefined : await requireCursor(principal, query.after)
      for (;;) {
        const page = await pageOf(principal, { after, limit: wanted === null ? limit : METADATA_PAGE })
        const rows = page.items.flatMap(({ record }) => ('jobId' in record ? [record.jobId] : []))
        const jobs = await findJobs(db, rows)
        for (const { record } of page.items) {
          if (wanted !== null && !wanted(record.request['metadata'])) continue
          if (found.length === limit) return toList(found, true)
          if ('jobId' in record) {
            found.push(await view.toWire(record, jobs.get(record.jobId)))
            continue
          }
          const loop = await reinforcement.withLoop(principal, record)
          if (loop !== null) found.push(await reinforcement.toWire(principal, loop))
        }
        after = page.items.at(-1)?.id
        if (!page.hasMore || wanted === null) return toList(found, page.hasMore)
        // metadata has no index
        await othersTurn()
      }
    },
    events: async (principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningEvent>> => {
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const loop = await reinforcement.find(principal, id)
      if (loop !== null) {
        const { items, hasMore } = await reinforcement.events(principal, loop, { after: query.after, limit })
        return toList(items, hasMore)
      }
      const { record, job } = await view.require(principal, id)
      const page = await listEvents(db, job.id, {
        after: query.after?.startsWith(EVENT_PREFIX) === true ? query.after.slice(EVENT_PREFIX.length) : query.after,
        limit,
        order: 'desc',
      })
      const events = page.items.map((event) => toFineTuningEvent(event, job, record.trainedName))
      return toList(events, page.hasMore)
    },
    checkpoints: async (
      principal: Principal,
      id: string,
      query: FineTuningPageQuery,
    ): Promise<List<FineTuningCheckpoint>> => {
      const loop = await reinforcement.find(principal, id)
      const all = loop === null ? await checkpointsOf(principal, id) : await reinforcement.checkpoints(principal, loop)
      const from = query.after === undefined ? 0 : all.findIndex((each) => each.id === query.after) + 1
      if (query.after !== undefined && from === 0) throw unknownCursor(query.after)
      const end = from + (query.limit ?? DEFAULT_PAGE_LIMIT)
      return toList(all.slice(from, end), end < all.length)
    },
  }

  async function checkpointsOf(principal: Principal, id: string): Promise<readonly FineTuningCheckpoint[]> {
    const { record, job } = await view.require(principal, id)
    const checkpoint = job.step === null ? null : await findCheckpoint(db, job.modelId, job.step)
    return checkpoint === null ? [] : [toFineTuningCheckpoint(checkpoint, job, record.trainedName)]
  }
}

/** OpenAI's `metadata[name]=value`, and `metadata=null` for jobs without any; null when neither is asked for. */
function metadataFilter(query: FineTuningPageQuery): ((metadata: unknown) => boolean) | null {
  const wanted = Object.entries(query).flatMap(([key, value]) => {
    const name = /^metadata\[(.*)\]$/.exec(key)?.[1]
    return name === undefined ? [] : [[name, value] as const]
  })
  const wantsNone = query['metadata'] === 'null'
  if (wanted.length === 0 && !wantsNone) return null
  return (metadata) => {
    const has = typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : null
    if (wantsNone) return has === null
    return wanted.every(([name, value]) => has !== null && Object.hasOwn(has, name) && has[name] === value)
  }
}
