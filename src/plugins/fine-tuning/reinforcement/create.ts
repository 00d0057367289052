/**
 * A reinforcement job that is created: its grader, rows and form of answers are checked, its numbers are chosen, and a row
 * keeps its request. The row is there before the model and the loop, which are made under names that it knows: a create that
 * was cut off is completed by the next of the same request.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { checkGrader } from '#plugins/graders/grading/check.js'
import { type Grader, readGrader } from '#plugins/graders/grading/spec.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { unreadFields } from '#service/operations/generation/chat/chat-request.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { ModelService } from '#service/operations/models/models.js'
import { openRows } from '#service/operations/training/row-stream.js'
import type { CreateHeaders } from '#service/operations/training/training-jobs.js'
import { forgetIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { CheckGrader } from '../../loops/check-grader.js'
import type { LoopService, LoopSpec } from '../../loops/loop-service.js'
import { createToolRules, readEpisode } from '../../loops/tools.js'
import { findRepeated, modelOf, requireRows } from '../create-parts.js'
import {
  deleteFineTuningLoop,
  type FineTuningLoop,
  fineTuningLoops,
  insertFineTuningLoop,
  type Note,
} from '../storage/loops.js'
import type { CreateFineTuningJobRequest, ReinforcementRequest } from '../wire.js'
import { chooseLoop, heldOutOf } from './hyperparameters.js'
import { formatProblem } from './response-format.js'
import { checkRows } from './rows.js'
import type { ReinforcementView } from './view.js'

/** What a job is created with. */
interface ReinforcementParts {
  readonly context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'baseModels' | 'modelFacts' | 'engines' | 'lookUp'>
  readonly models: Pick<ModelService, 'draft' | 'create' | 'delete'>
  readonly loops: Pick<LoopService, 'create'>
  readonly view: Pick<ReinforcementView, 'withLoop'>
  readonly checkGrader: CheckGrader
  /** Where tools may be beside public addresses. */
  readonly toolHosts: readonly string[]
}

/** Rows of a job, and of those that it is measured on. */
const [MOST_ROWS, MOST_HELD_OUT] = [50_000, 1_000]
const GRADER = 'method.reinforcement.grader'
const FOUND = { byId: fineTuningLoops.find, byDigest: fineTuningLoops.findByDigest }

/** @returns the row of the job; of a request that is repeated, the row that the first one made */
export async function createReinforcementJob(
  parts: ReinforcementParts,
  principal: Principal,
  { request, headers }: { readonly request: CreateFineTuningJobRequest; readonly headers: CreateHeaders },
): Promise<FineTuningLoop> {
  const { context, models, loops } = parts
  const { db } = context
  const requestDigest = digestOf([request as JsonObject])
  const key = headers.idempotencyKey
  const scope = key === null ? null : { ...ownerOf(principal), scope: 'fine-tuning-jobs' as const, key }
  const repeatable = { scope, requestDigest, isRetry: headers.isRetry }
  const before = await findRepeated(db, principal, repeatable, FOUND)
  if (before !== null && (await parts.view.withLoop(principal, before)) !== null) return before
  const { model, baseModel } = await resolvePolicy(context, principal, request.model)
  const wanted = modelOf(principal, request, baseModel)
  const trained = model ?? (await models.draft(principal, wanted))
  const { spec, shown, notes } = await specOf(parts, principal, { request, baseModel })
  await parts.checkGrader(principal, spec.grader, GRADER)
  const record =
    before ??
    (await inTransaction(db, async (transaction) => {
      const first = await findRepeated(transaction, principal, { ...repeatable, isRetry: false }, FOUND)
      if (first !== null) return first
      const loopId = context.ids.uuid()
      if (scope !== null) await rememberIdempotent(transaction, scope, requestDigest, loopId)
      await insertFineTuningLoop(transaction, {
        loopId,
        ...{ entity: trained.entity, project: trained.project },
        requestDigest,
        request: request as JsonObject,
        trainedName: `${trained.entity}/${trained.project}/${trained.name}`,
        hyperparameters: shown,
        notes,
      })
      const made = await fineTuningLoops.find(transaction, principal, loopId)
      if (made === null) throw new Error('a row that was inserted is not there')
      return made
    }))
  const { loopId, entity, project, trainedName } = record
  const name = trainedName.slice(`${entity}/${project}/`.length)
  const isNewModel = model === null
  const modelId = isNewModel
    ? (await models.create(principal, { ...wanted, project, name, return_existing: true }, null)).id
    : model.id
  try {
    await loops.create({ entity, project, keyId: principal.keyId }, { ...spec, modelId }, loopId)
    return record
  } catch (error) {
    await deleteFineTuningLoop(db, loopId)
    await forgetIdempotent(db, loopId)
    if (isNewModel) await models.delete(principal, modelId)
    throw error
  }
}

/** What the loop is to do, what the job shows of it, and what is worth saying. */
async function specOf(
  { context, toolHosts }: Pick<ReinforcementParts, 'context' | 'toolHosts'>,
  principal: Principal,
  { request, baseModel }: { readonly request: CreateFineTuningJobRequest; readonly baseModel: string },
): Promise<{
  readonly spec: Omit<LoopSpec, 'modelId'>
  readonly shown: JsonObject
  readonly notes: readonly Note[]
}> {
  const wanted = wantedOf(request)
  const grader = readGrader(wanted.grader, GRADER)
  checkGrader(grader, GRADER)
  const responseFormat = formatOf(wanted)
  const rules = createToolRules(toolHosts, context.lookUp)
  const episode = readEpisode({ ...wanted, tools: wanted.tools ?? undefined }, rules, 'method.reinforcement.')
  const { count, notes } = await checkFile(context, principal, { request, field: 'training_file', grader })
  const heldOut = await checkFile(context, principal, { request, field: 'validation_file', grader })
  const heldOutRows = heldOut.count > 0 ? 0 : heldOutOf(count)
  const rows = count - heldOutRows
  const parameters = await context.modelFacts.parametersOf(baseModel)
  const { shown, loop } = chooseLoop(wanted.hyperparameters ?? {}, { rows, parameters })
  const effort = wanted.hyperparameters?.reasoning_effort ?? 'default'
  const sampling: JsonObject = effort === 'default' ? {} : { reasoning_effort: effort }
  const limits = wanted.limits ?? {}
  return {
    spec: {
      ...loop,
      promptsFileId: request.training_file,
      heldOutFileId: request.validation_file ?? null,
      heldOutRows,
      grader: wanted.grader as JsonObject,
      responseFormat,
      seed: request.seed ?? 0,
      sampling,
      limits: {
        graderTokens: limits.max_grader_tokens ?? null,
        seconds: limits.max_seconds ?? null,
        endpointCalls: limits.max_endpoint_calls ?? null,
      },
      ...episode,
    },
    shown,
    notes: [
      ...[...notes, ...heldOut.notes].map((message): Note => ({ level: 'warn', message })),
      ...(heldOutRows === 0
        ? []
        : [
            { level: 'info', message: `No validation_file: ${heldOutRows} of the ${count} rows are held out` } as const,
          ]),
      ...(await noteEffort(context, principal, { baseModel, sampling })),
    ],
  }
}

/** @throws {InvalidRequestError} `missing_required_parameter`, `unsupported_parameter` */
function wantedOf({ method }: CreateFineTuningJobRequest): ReinforcementRequest {
  const wanted = method?.reinforcement ?? null
  if (wanted === null) {
    throw new InvalidRequestError('missing_required_parameter', 'method.reinforcement is missing', {
      param: 'method.reinforcement',
      hint: '{"grader": {…}, "hyperparameters": {…}}: what an answer is worth, and how long it is trained',
    })
  }
  return wanted
}

/** @throws {InvalidRequestError} `invalid_value` */
function formatOf({ response_format: format = null }: ReinforcementRequest): JsonObject | null {
  const param = 'method.reinforcement.response_format'
  if (format === null) return null
  const problem = formatProblem(format)
  if (problem !== null) throw new InvalidRequestError('invalid_value', `method.reinforcement: ${problem}`, { param })
  return format.type === 'text' ? null : (format as JsonObject)
}

/** @returns no rows where the request names no such file */
async function checkFile(
  context: ReinforcementParts['context'],
  principal: Principal,
  {
    request,
    field,
    grader,
  }: {
    readonly request: CreateFineTuningJobRequest
    readonly field: 'training_file' | 'validation_file'
    readonly grader: Grader
  },
): Promise<{ readonly count: number; readonly notes: readonly string[] }> {
  const id = request[field] ?? null
  if (id === null) return { count: 0, notes: [] }
  const { sha256 } = await requireRows(context, principal, { field, id })
  const most = field === 'training_file' ? MOST_ROWS : MOST_HELD_OUT
  const checked = await checkRows(
    await openRows(context.blobs, sha256, field),
    { field, most },
    { grader, param: GRADER },
  )
  if (field === 'training_file' && checked.count < 2 && (request.validation_file ?? null) === null) {
    throw new InvalidRequestError('too_few_rows', 'training_file has one row, of which none can be held out', {
      param: field,
      hint: 'add rows, or name a validation_file',
    })
  }
  return checked
}

/** An effort that the model's chat template does not read changes nothing. */
async function noteEffort(
  { engines }: Pick<ServiceContext, 'engines'>,
  principal: Principal,
  { baseModel, sampling }: { readonly baseModel: string; readonly sampling: JsonObject },
): Promise<readonly Note[]> {
  if (Object.keys(sampling).length === 0) return []
  const { templateNames = null } = await engines.engineOf(baseModel, ownerOf(principal)).ready()
  const isRead = templateNames === null || unreadFields(sampling as ChatRequest, templateNames).length === 0
  const message = `reasoning_effort changes nothing: the chat template of ${baseModel} has no switch for it`
  return isRead ? [] : [{ level: 'warn', message }]
}
