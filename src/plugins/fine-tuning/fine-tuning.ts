/**
 * OpenAI's fine-tuning API: each job is an ordinary SFT or preference job of an ordinary model, and a row that keeps
 * OpenAI's fields of the request, to be shown again.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { CreateHeaders, TrainingJobService } from '#service/operations/training/training-jobs.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listEvents } from '#service/storage/events.js'
import { unknownCursor } from '#service/storage/paging.js'
import { findJobs } from '#service/storage/training-jobs.js'
import { createJob } from './create-job.js'
import { createJobView, type JobView } from './job-view.js'
import { findFineTuningJob, listFineTuningJobs } from './storage/jobs.js'
import { fromFineTuningId, toFineTuningCheckpoint, toFineTuningEvent } from './to-openai.js'
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
  /** Newest first. */
  events(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningEvent>>
  checkpoints(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningCheckpoint>>
}

/** Jobs read at once while some with certain metadata are looked for. */
const METADATA_PAGE = 100
const EVENT_PREFIX = 'ftevent-'

export function createFineTuningService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'baseModels' | 'modelFacts'>,
  { models, trainingJobs }: { readonly models: ModelService; readonly trainingJobs: TrainingJobService },
): FineTuningService {
  const view = createJobView(context)
  return {
    ...createJobLists(context, view),
    create: (principal, request, headers) =>
      createJob({ context, models, trainingJobs, view }, principal, { request, headers }),
    get: view.get,
    cancel: async (principal, id) => {
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
function createJobLists({ db }: Pick<ServiceContext, 'db'>, view: JobView) {
  /** The training job of the fine-tuning job after which a list goes on. */
  async function requireCursor(principal: Principal, after: string): Promise<string> {
    const jobId = fromFineTuningId(after)
    if ((await findFineTuningJob(db, principal, jobId)) === null) throw unknownCursor(after)
    return jobId
  }

  return {
    list: async (principal: Principal, query: FineTuningPageQuery): Promise<List<FineTuningJob>> => {
      const wanted = metadataFilter(query)
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const found: FineTuningJob[] = []
      let after = query.after === undefined ? undefined : await requireCursor(principal, query.after)
      for (;;) {
        const page = await listFineTuningJobs(db, principal, { after, limit: wanted === null ? limit : METADATA_PAGE })
        const jobs = await findJobs(
          db,
          page.items.map(({ jobId }) => jobId),
        )
        for (const record of page.items) {
          if (wanted !== null && !wanted(record.request['metadata'])) continue
          if (found.length === limit) return toList(found, true)
          found.push(await view.toWire(record, jobs.get(record.jobId)))
        }
        after = page.items.at(-1)?.jobId
        if (!page.hasMore || wanted === null) return toList(found, page.hasMore)
        // metadata has no index
        await othersTurn()
      }
    },
    events: async (principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningEvent>> => {
      const { record, job } = await view.require(principal, id)
      const page = await listEvents(db, job.id, {
        after: query.after?.startsWith(EVENT_PREFIX) === true ? query.after.slice(EVENT_PREFIX.length) : query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
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
      const { record, job } = await view.require(principal, id)
      const checkpoint = job.step === null ? null : await findCheckpoint(db, job.modelId, job.step)
      const all = checkpoint === null ? [] : [toFineTuningCheckpoint(checkpoint, job, record.trainedName)]
      const { after } = query
      if (after === undefined) return toList(all, false)
      if (all.every(({ id }) => id !== after)) throw unknownCursor(after)
      return toList<FineTuningCheckpoint>([], false)
    },
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
