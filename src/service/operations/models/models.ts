/**
 * Creating, reading and deleting models.
 *
 * Names are data: any text but separators (`/`, `:`) and invisible characters, compared exactly. Deleting a model that is in
 * use: its unfinished jobs end as cancelled with their event, answers that are being generated finish on the weights they
 * started with, and its name is free again.
 */

import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { closest } from '#base/util/suggest.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type {
  CreateModelRequest,
  DeleteModelResponse,
  ListedModel,
  ListModelsQuery,
  Model,
} from '#contract/wire/models.js'
import { endUnsuccessfully } from '#service/queue/outcome.js'
import { deleteCheckpointRows, listSteps } from '#service/storage/checkpoints.js'
import { type Database, isUniqueViolation } from '#service/storage/database.js'
import { findIdempotent, forgetIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { deleteKeptDataOfModel } from '#service/storage/jobs/kept-data.js'
import { clearJobInputs } from '#service/storage/jobs/states.js'
import {
  deleteModelRow,
  findModel,
  findModelByName,
  insertModel,
  listModels,
  type ModelRecord,
  type NewModel,
} from '#service/storage/models.js'
import { listUnfinishedJobs } from '#service/storage/training-jobs.js'
import { checkName } from '../access/names.js'
import { digestOf } from '../access/request-digest.js'
import { checkEntity, checkProject, isOwn, ownerOf } from '../access/tenant.js'
import type { Principal, ServiceContext } from '../context.js'
import { toWireModel } from '../to-wire.js'
import { beginAs, originOf } from './model-origins.js'
import { createModelSummaries } from './model-summaries.js'

export interface ModelService {
  create(principal: Principal, request: CreateModelRequest, idempotencyKey: string | null): Promise<Model>
  /** A model for `storeModel`, checked as `create` does; nothing is stored. */
  draft(principal: Principal, request: CreateModelRequest): Promise<ModelRecord>
  get(principal: Principal, id: string): Promise<Model>
  list(principal: Principal, query: ListModelsQuery): Promise<List<ListedModel>>
  delete(principal: Principal, id: string): Promise<DeleteModelResponse>
}

/** What it works with. */
type Context = Pick<
  ServiceContext,
  | 'db'
  | 'blobs'
  | 'ids'
  | 'clock'
  | 'logger'
  | 'signals'
  | 'activity'
  | 'engines'
  | 'exporter'
  | 'baseModels'
  | 'requestSweep'
>

export function createModelService(context: Context): ModelService {
  const { db, ids } = context
  const summarize = createModelSummaries(context)

  function tell(type: 'model.created' | 'model.deleted', model: ModelRecord): void {
    const { id, name, baseModel } = model
    context.activity.publish({ type, owner: model, modelId: id, data: { name, base_model: baseModel } })
  }

  async function check(principal: Principal, request: CreateModelRequest) {
    checkName('project', request.project)
    checkName('name', request.name)
    const entity = checkEntity(principal, request.entity ?? '')
    checkProject(principal, request.project)
    const { baseModel, origin, notes } = await originOf(context, principal, request)
    assertBaseModel(context, baseModel)
    const { project, name } = request
    return { model: { entity, project, name, baseModel }, origin, notes }
  }

  async function create(
    principal: Principal,
    request: CreateModelRequest,
    idempotencyKey: string | null,
  ): Promise<Model> {
    const { model: wanted, origin, notes } = await check(principal, request)
    const toAnswer = (model: ModelRecord): Model => ({
      ...toWireModel(model),
      ...(notes.length === 0 ? {} : { warnings: [...notes] }),
    })
    const { entity, baseModel } = wanted
    const digest = digestOf(request)
    const scope =
      idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'models' as const, key: idempotencyKey }
    const insert = () =>
      inTransaction(db, async (transaction) => {
        if (scope !== null) {
          const before = await findIdempotent(transaction, scope, digest)
          const model = before === null ? null : await findModel(transaction, before)
          if (model !== null) return { model, isNew: false }
        }
        const existing = await findModelByName(transaction, entity, request.project, request.name)
        if (existing !== null) return { model: returnExisting(existing, request, baseModel), isNew: false }
        const id = ids.uuid()
        await storeModel(context, transaction, { ...wanted, id, runId: ids.uuid() })
        if (origin !== null) await beginAs(transaction, ids, id, origin)
        if (scope !== null) await rememberIdempotent(transaction, scope, digest, id)
        return { model: requireRow(await findModel(transaction, id)), isNew: true }
      })
    const stored = await insert().catch((error: unknown) => {
      if (!isUniqueViolation(error)) throw error
      // another create of the same name came first
      return insert()
    })
    if (stored.isNew) tell('model.created', stored.model)
    return toAnswer(stored.model)
  }

  async function deleteModel(principal: Principal, id: string): Promise<DeleteModelResponse> {
    const model = await requireModel(context, principal, id)
    const { steps, jobs } = await inTransaction(db, async (transaction) => {
      const unfinished = await listUnfinishedJobs(transaction, model.id)
      for (const job of unfinished) {
        await endUnsuccessfully(transaction, ids, job, {
          code: 'model_deleted',
          message: 'the model was deleted',
          isCancelled: true,
        })
      }
      const checkpoints = await listSteps(transaction, model.id)
      await deleteCheckpointRows(
        transaction,
        model.id,
        checkpoints.map((checkpoint) => checkpoint.step),
      )
      await clearJobInputs(transaction, model.id)
      await deleteKeptDataOfModel(transaction, model.id)
      await forgetIdempotent(transaction, model.id)
      await deleteModelRow(transaction, model.id)
      return { steps: checkpoints, jobs: unfinished }
    })
    for (const step of steps) context.engines.forgetAdapter(step.adapterDigest)
    for (const job of jobs) context.signals.notify(job.id)
    tell('model.deleted', model)
    context.requestSweep()
    return { model_id: model.id, deleted_checkpoints: steps.length, deleted_run: true }
  }

  return {
    create,
    draft: async (principal, request) => {
      const { model } = await check(principal, { ...request, return_existing: false })
      return { ...model, id: ids.uuid(), runId: ids.uuid(), step: 0, createdAtMs: context.clock.nowMs() }
    },
    delete: deleteModel,
    get: async (principal, id) => toWireModel(await requireModel(context, principal, id)),
    list: async (principal, query) => {
      if (query.entity !== undefined) checkEntity(principal, query.entity)
      const page = await listModels(db, {
        entity: principal.entity,
        project: checkProject(principal, query.project),
        name: query.name,
        baseModel: query.base_model,
        text: query.query,
        sort: query.sort,
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      const ids = page.items.map(({ id: modelId }) => modelId)
      const summaries = query.include === undefined ? null : await summarize(ids, query.include === 'options')
      const models = page.items.map((model) => {
        const summary = summaries?.get(model.id)
        return { ...toWireModel(model), ...(summary === undefined ? {} : { summary }) }
      })
      return toList(models, page.hasMore)
    },
  }
}

/** Stores a new model, in a transaction. @throws {InvalidRequestError} `unknown_base_model` */
export async function storeModel(
  context: Pick<ServiceContext, 'baseModels'>,
  transaction: Database,
  model: NewModel,
): Promise<void> {
  // it may have been removed since: whoever removes one counts its models after taking it off this list
  assertBaseModel(context, model.baseModel)
  await insertModel(transaction, model)
}

function assertBaseModel({ baseModels }: Pick<ServiceContext, 'baseModels'>, name: string): void {
  if (baseModels.some((entry) => entry.name === name)) return
  const known = baseModels.map((entry) => `"${entry.name}"`).join(', ')
  const near = closest(
    name,
    baseModels.map((entry) => entry.name),
  )
  const meant = near === undefined ? '' : `did you mean "${near}"? `
  throw new InvalidRequestError('unknown_base_model', `base_model must be one of ${known}, got "${name}"`, {
    param: 'base_model',
    hint: `${meant}GET /v1/preview/base-models lists them; trainyard base-models add adds one`,
  })
}

/** A model of the principal's entity and project. A foreign model is not found, so that ids leak nothing. */
export async function requireModel(
  context: Pick<ServiceContext, 'db'>,
  principal: Principal,
  id: string,
): Promise<ModelRecord> {
  const model = await findModel(context.db, id)
  if (model === null || !isOwn(principal, model)) {
    throw new NotFoundError('model_not_found', `model "${id.slice(0, 100)}" was not found`)
  }
  return model
}

function returnExisting(existing: ModelRecord, request: CreateModelRequest, baseModel: string): ModelRecord {
  const label = `model "${request.name}" in project "${request.project}"`
  if (request.return_existing !== true) {
    throw new ConflictError('model_already_exists', `${label} exists already`, {
      hint: 'send return_existing: true to get it',
    })
  }
  if (existing.baseModel !== baseModel) {
    throw new ConflictError('base_model_mismatch', `${label} has base model "${existing.baseModel}"`, {
      param: 'base_model',
    })
  }
  return existing
}

function requireRow<T>(row: T | null): T {
  if (row === null) throw new AppError('internal', 'internal_error', 'a row vanished while it was created')
  return row
}
