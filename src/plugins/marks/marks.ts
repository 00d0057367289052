/**
 * Marks on answers: of trajectories that jobs trained on or that were logged, and of chats. A mark copies what it is about, so that it
 * outlives it; it goes with its model.
 */
import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type {
  CreateMarkRequest,
  DeletedMark,
  ListMarksQuery,
  Mark,
  PutMarkRequest,
} from '#contract/wire/training/marks.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { isOwn, ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import type { RolloutService, TrajectoryPlace } from '#service/operations/training/rollouts/rollouts.js'
import { createRolloutFiles } from '#service/operations/training/rollouts/rollouts-file.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findJob } from '#service/storage/training-jobs.js'
import { findTrajectoryLog } from '#service/storage/trajectories.js'
import { assertSize, plain, type SaidMessage, splitConversation } from './mark-content.js'
import { isSameAnswer } from './mark-rows.js'
import { assertTrainable } from './mark-rows-check.js'
import {
  countMarks,
  deleteMark,
  findMark,
  findMarkAt,
  listMarks,
  type MarkContent,
  type MarkPlace,
  type MarkRecord,
  type NewMark,
  putMark,
} from './storage/marks.js'

/** Which trajectory of which log. */
export interface LoggedPlace {
  readonly modelId: string
  readonly logId: string
  readonly group: string
  readonly trajectory: string
}

interface MarkService {
  /** Whose it is, before a body is read. @throws {NotFoundError} */
  checkJob(principal: Principal, jobId: string): Promise<void>
  checkModel(principal: Principal, modelId: string): Promise<void>
  /** Marks a trajectory a job trained on, or says something else of it. */
  put(principal: Principal, place: TrajectoryPlace, request: PutMarkRequest): Promise<Mark>
  putLogged(principal: Principal, place: LoggedPlace, request: PutMarkRequest): Promise<Mark>
  /** Marks an answer of a chat. */
  create(
    principal: Principal,
    modelId: string,
    request: CreateMarkRequest,
    idempotencyKey: string | null,
  ): Promise<Mark>
  list(principal: Principal, modelId: string, query: ListMarksQuery): Promise<List<Mark>>
  delete(principal: Principal, modelId: string, id: string): Promise<DeletedMark>
}

/** Marks of one model: a training file of all of them is made at once. */
export const MAX_MARKS = 10_000

/** A trajectory as it is marked. */
interface Found {
  readonly messages: readonly SaidMessage[]
  readonly tools: readonly JsonObject[] | null
  readonly step: number | null
}

export function createMarkService(
  context: Pick<ServiceContext, 'db' | 'ids' | 'blobs'>,
  { rollouts }: { readonly rollouts: Pick<RolloutService, 'trajectory'> },
): MarkService {
  const { db, ids, blobs } = context
  const files = createRolloutFiles(blobs)

  async function requireJob(principal: Principal, jobId: string) {
    const job = await findJob(db, jobId)
    if (job !== null && isOwn(principal, job)) return job
    throw new NotFoundError('training_job_not_found', `training job "${jobId.slice(0, 100)}" was not found`)
  }

  /** @param repeat a key that may have made it before @returns the mark as it is stored */
  async function store(mark: Omit<NewMark, 'id'>, repeat: IdempotencyScope | null = null): Promise<Mark> {
    assertSize(mark)
    await assertTrainable(mark)
    const digest = digestOf(mark)
    const made = ids.uuid()
    const stored = await inTransaction(db, async (transaction) => {
      const id = repeat === null ? null : await findIdempotent(transaction, repeat, digest)
      const same = id === null ? null : await findMark(transaction, mark.modelId, id)
      if (same !== null) return same
      const before = mark.sourceId === null ? null : await findMarkAt(transaction, mark.modelId, mark)
      if (before === null && (await countMarks(transaction, mark.modelId)) >= MAX_MARKS) throw tooMany()
      await putMark(transaction, { ...mark, id: before?.id ?? made })
      if (repeat !== null) await rememberIdempotent(transaction, repeat, digest, made)
      return findMark(transaction, mark.modelId, before?.id ?? made)
    })
    if (stored === null) throw new NotFoundError('model_not_found', 'the model was deleted')
    return toWire(stored)
  }

  /** Marks a trajectory that `find` reads, by its index in the group of `place`. */
  async function judge(
    modelId: string,
    place: MarkPlace & { readonly group: number; readonly trajectory: number },
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
    return store({
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

  return {
    checkJob: async (principal, jobId) => void (await requireJob(principal, jobId)),
    checkModel: async (principal, modelId) => void (await requireModel(context, principal, modelId)),
    put: async (principal, place, request) => {
      const job = await requireJob(principal, place.jobId)
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
      return judge(model.id, at, { request, find })
    },
    putLogged: async (principal, place, request) => {
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
      return judge(model.id, { source: 'log', sourceId: log.id, group, trajectory }, { request, find })
    },
    create: async (principal, modelId, request, idempotencyKey) => {
      const model = await requireModel(context, principal, modelId)
      assertEdit(request)
      const content: MarkContent = {
        prompt: request.messages.map((message) => plain(message as JsonObject)),
        answer: [answerOf(request.answer as JsonObject, 'answer')],
        other: request.other == null ? null : [answerOf(request.other as JsonObject, 'other')],
        tools: (request.tools ?? null) as readonly JsonObject[] | null,
      }
      if (content.other !== null) assertComparable({ ...content, other: content.other }, content.prompt, 'other')
      const mark = {
        ...content,
        modelId: model.id,
        source: 'chat' as const,
        sourceId: null,
        group: null,
        trajectory: null,
        pairWith: null,
        step: request.step ?? null,
        mark: request.mark,
        edited: request.edited ?? null,
        note: request.note ?? null,
      }
      const key =
        idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'marks' as const, key: idempotencyKey }
      return store(mark, key)
    },
    list: async (principal, modelId, query) => {
      const model = await requireModel(context, principal, modelId)
      const { training_job_id: jobId, log_id: logId } = query
      if (jobId !== undefined && logId !== undefined) {
        throw new InvalidRequestError('invalid_value', 'training_job_id and log_id exclude each other', {
          param: 'log_id',
        })
      }
      const page = await listMarks(db, model.id, {
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
        order: 'desc',
        mark: query.mark,
        group: query.group,
        trajectory: query.trajectory,
        ...(jobId === undefined ? {} : { source: 'training_job', sourceId: jobId }),
        ...(logId === undefined ? {} : { source: 'log', sourceId: logId }),
      })
      return toList(page.items.map(toWire), page.hasMore)
    },
    delete: async (principal, modelId, id) => {
      const model = await requireModel(context, principal, modelId)
      const mark = await findMark(db, model.id, id)
      if (mark === null) throw new NotFoundError('mark_not_found', `mark "${id.slice(0, 100)}" was not found`)
      await deleteMark(db, mark.id)
      return { id: mark.id, object: 'mark', deleted: true }
    },
  }
}

/** @throws {InvalidRequestError} `needless_edit` */
function assertEdit({ mark, edited }: Pick<PutMarkRequest, 'mark' | 'edited'>): void {
  if (edited == null || mark === 'bad') return
  throw new InvalidRequestError('needless_edit', 'edited is what should have been said instead, and the mark is good', {
    param: 'edited',
    hint: 'mark the answer bad to teach the edited one in its place, or leave edited out',
  })
}

function assertComparable(
  own: Pick<MarkContent, 'prompt' | 'answer'> & { readonly other: readonly JsonObject[] },
  prompt: readonly JsonObject[],
  param: string,
): void {
  if (JSON.stringify(own.prompt) !== JSON.stringify(prompt)) {
    throw new InvalidRequestError('different_prompts', `${param} names an answer to something else`, {
      param,
      hint: 'a preference is between two answers to the same prompt',
    })
  }
  if (!isSameAnswer(own.answer, own.other)) return
  throw new InvalidRequestError('equal_answers', `${param} names an answer that says the same: nothing is preferred`, {
    param,
  })
}

function answerOf(message: JsonObject, param: string): JsonObject {
  const answer = plain(message)
  if (answer['role'] === 'assistant') return answer
  throw new InvalidRequestError('invalid_value', `${param} must be a message of the assistant`, { param })
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

function tooMany(): ConflictError {
  return new ConflictError('too_many_marks', `a model may have ${MAX_MARKS} marks`, {
    hint: 'make a file of them (POST /v1/files/from-marks) and delete some',
  })
}

/** Stored messages are parsed JSON, as the wire has it. */
function toWire(mark: MarkRecord): Mark {
  const isJob = mark.source === 'training_job'
  return {
    id: mark.id,
    object: 'mark',
    model_id: mark.modelId,
    mark: mark.mark,
    source: mark.source,
    training_job_id: isJob ? mark.sourceId : null,
    log_id: mark.source === 'log' ? mark.sourceId : null,
    group: mark.group,
    trajectory: mark.trajectory,
    pair_with: mark.pairWith,
    step: mark.step,
    prompt: mark.prompt as Mark['prompt'],
    answer: mark.answer as Mark['answer'],
    edited: mark.edited,
    other: mark.other as Mark['other'],
    tools: mark.tools as Mark['tools'],
    note: mark.note,
    created_at: new Date(mark.createdAtMs).toISOString(),
    updated_at: new Date(mark.updatedAtMs).toISOString(),
  }
}
