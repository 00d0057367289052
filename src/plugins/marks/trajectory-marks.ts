/**
 * Marks on trajectories: of those that jobs trained on, and of those that were logged.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Mark, PutMarkRequest } from '#contract/wire/training/marks.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import type { Database } from '#service/storage/database.js'
import { findJob } from '#service/storage/training-jobs.js'
import { findTrajectoryLog } from '#service/storage/trajectories.js'
import type { RolloutService, TrajectoryPlace } from '../job-data/rollouts.js'
import { createRolloutFiles } from '../job-data/rollouts-file.js'
import { type SaidMessage, splitConversation } from './mark-content.js'
import type { MarkPlace } from './storage/marks.js'
import { assertComparable, assertEdit, storeMark } from './store-mark.js'

/** Which trajectory of which log. */
export interface LoggedPlace {
  readonly modelId: string
  readonly logId: string
  readonly group: string
  readonly trajectory: string
}

/** A trajectory as it is marked. */
interface Found {
  readonly messages: readonly SaidMessage[]
  readonly tools: readonly JsonObject[] | null
  readonly step: number | null
}

/** A trajectory that is marked, by its index in its group. */
type JudgedPlace = MarkPlace & { readonly modelId: string; readonly group: number; readonly trajectory: number }

export function createTrajectoryMarks(
  context: Pick<ServiceContext, 'db' | 'ids' | 'blobs'>,
  rollouts: Pick<RolloutService, 'trajectory'>,
) {
  const { db, blobs } = context
  const files = createRolloutFiles(blobs)
  return {
    /** Marks a trajectory a job trained on, or says something else of it. */
    put: async (principal: Principal, place: TrajectoryPlace, request: PutMarkRequest): Promise<Mark> => {
      const job = await requireJob(db, principal, place.jobId)
      const model = await requireModel(context, principal, job.modelId)
      const find = async (trajectory: number): Promise<Found> => {
        const found = await rollouts.trajectory(principal, { ...place, trajectory: String(trajectory) })
        const [history] = found.histories
        return {
          messages: (history?.messages ?? []).map(({ message, is_sampled: isSampled }) => ({ message, isSampled })),
          tools: history?.tools ?? null,
          step: found.final_policy_version ?? found.initial_policy_version,
        }
      }
      const at = { source: 'training_job' as const, sourceId: job.id, ...placeOf(place) }
      return judge(context, { modelId: model.id, ...at }, { request, find })
    },
    putLogged: async (principal: Principal, place: LoggedPlace, request: PutMarkRequest): Promise<Mark> => {
      const model = await requireModel(context, principal, place.modelId)
      const log = await findTrajectoryLog(db, model.id, place.logId)
      if (log === null) {
        throw new NotFoundError(
          'trajectory_log_not_found',
          `trajectory log "${place.logId.slice(0, 100)}" was not found`,
        )
      }
      const { group, trajectory } = placeOf(place)
      const text = await files.readRow(log.bodySha256, group)
      if (text === null) throw noSuch('group', group)
      const { trajectories } = parseTrajectoryGroup(JSON.parse(text), `trajectory_groups[${group}]`)
      const find = async (index: number): Promise<Found> => {
        const found = trajectories[index]
        if (found === undefined) throw noSuch('trajectory', index)
        const [history] = found.histories
        return {
          messages: (history?.items ?? []).map(({ kind, message }) => ({ message, isSampled: kind === 'choice' })),
          tools: history?.tools ?? null,
          step: found.finalPolicyVersion ?? found.initialPolicyVersion ?? log.step,
        }
      }
      const at = { source: 'log' as const, sourceId: log.id, group, trajectory }
      return judge(context, { modelId: model.id, ...at }, { request, find })
    },
  }
}

/** Marks a trajectory that `find` reads, by its index in the group of the place. */
async function judge(
  context: Pick<ServiceContext, 'db' | 'ids'>,
  { modelId, ...place }: JudgedPlace,
  { request, find }: { readonly request: PutMarkRequest; readonly find: (index: number) => Promise<Found> },
): Promise<Mark> {
  assertEdit(request)
  const pairWith = request.pair_with ?? null
  if (pairWith === place.trajectory) {
    throw new InvalidRequestError('invalid_value', 'pair_with names the trajectory itself, expected another one', {
      param: 'pair_with',
    })
  }
  const { messages, tools, step } = await find(place.trajectory)
  const own = splitConversation(messages, `trajectory ${place.trajectory}`)
  const paired = pairWith === null ? null : await find(pairWith)
  const other = paired === null ? null : splitConversation(paired.messages, `trajectory ${pairWith}`)
  if (other !== null) assertComparable({ ...own, other: other.answer }, other.prompt, 'pair_with')
  return storeMark(context, {
    ...place,
    ...own,
    modelId,
    other: other?.answer ?? null,
    tools,
    step,
    pairWith,
    mark: request.mark,
    edited: request.edited ?? null,
    note: request.note ?? null,
  })
}

/** @throws {NotFoundError} `training_job_not_found` */
export async function requireJob(db: Database, principal: Principal, jobId: string) {
  const job = await findJob(db, jobId)
  if (job !== null && isOwn(principal, job)) return job
  throw new NotFoundError('training_job_not_found', `training job "${jobId.slice(0, 100)}" was not found`)
}

function placeOf(place: { readonly group: string; readonly trajectory: string }) {
  return { group: toIndex('group', place.group), trajectory: toIndex('trajectory', place.trajectory) }
}

function toIndex(name: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new NotFoundError('rollout_not_found', `${name} must be a number from 0, got "${text.slice(0, 40)}"`)
}

function noSuch(name: string, index: number): NotFoundError {
  return new NotFoundError('rollout_not_found', `there is no ${name} ${index}`, { hint: 'they are counted from 0' })
}
