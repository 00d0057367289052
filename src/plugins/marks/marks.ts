/**
 * Marks on answers: of trajectories that jobs trained on or that were logged, and of chats. A mark copies what it is about, so that it
 * outlives it; it goes with its model.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type {
  CreateMarkRequest,
  DeletedMark,
  ListMarksQuery,
  Mark,
  PutMarkRequest,
} from '#contract/wire/training/marks.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import type { RolloutService, TrajectoryPlace } from '../job-data/rollouts.js'
import { plain } from './mark-content.js'
import { deleteMark, findMark, listMarks, type MarkContent } from './storage/marks.js'
import { assertComparable, assertEdit, storeMark, toWireMark } from './store-mark.js'
import { createTrajectoryMarks, type LoggedPlace, requireJob } from './trajectory-marks.js'

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

export function createMarkService(
  context: Pick<ServiceContext, 'db' | 'ids' | 'blobs'>,
  { rollouts }: { readonly rollouts: Pick<RolloutService, 'trajectory'> },
): MarkService {
  const { db } = context
  return {
    ...createTrajectoryMarks(context, rollouts),
    checkJob: async (principal, jobId) => void (await requireJob(db, principal, jobId)),
    checkModel: async (principal, modelId) => void (await requireModel(context, principal, modelId)),
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
      return storeMark(context, mark, key)
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
      return toList(page.items.map(toWireMark), page.hasMore)
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

function answerOf(message: JsonObject, param: string): JsonObject {
  const answer = plain(message)
  if (answer['role'] === 'assistant') return answer
  throw new InvalidRequestError('invalid_value', `${param} must be a message of the assistant`, { param })
}
