/**
 * A request for a loop → what is to be done, complete: its rows are counted and looked at, and what was left open is decided.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, withoutNulls } from '#base/util/json.js'
import { randomSeed } from '#base/util/rng.js'
import { readLines } from '#formats/rows/json-lines.js'
import { pathsOfNoRow } from '#plugins/graders/grading/check.js'
import { type Grader, readGrader } from '#plugins/graders/grading/spec.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findFile } from '#service/storage/files.js'
import { findModel } from '#service/storage/models.js'
import type { LoopOwner, LoopSpec } from './loop-service.js'
import { assertFits } from './loops.js'
import { createToolRules, readEpisode } from './tools.js'
import type { CreateLoopRequest } from './wire.js'

const DEFAULT_STEPS = 20
/** Rows of a file, as reinforcement jobs may have, and the length of one. */
const MOST_ROWS = 50_000
const MOST_ROW_BYTES = 4 * 1024 ** 2
/** Evaluations of a loop, unless it is said how often. */
const EVALUATIONS = 10

/**
 * @param toolHosts where tools may be beside public addresses
 * @throws {AppError} `model_not_found`, `file_not_found`, `invalid_prompts`, `invalid_grader`, `tool_refused`
 */
export async function readLoopRequest(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'lookUp'>,
  principal: Principal,
  request: CreateLoopRequest,
  toolHosts: readonly string[],
): Promise<{ readonly owner: LoopOwner; readonly spec: LoopSpec }> {
  const model = await findModel(context.db, request.model_id)
  if (model === null || !isOwn(principal, model)) {
    throw new NotFoundError('model_not_found', `model "${request.model_id}" was not found`, { param: 'model_id' })
  }
  const grader = readGrader(request.grader)
  const rules = createToolRules(toolHosts, context.lookUp)
  const episode = readEpisode({ ...request, tools: request.tools ?? undefined }, rules)
  const rows = await checkRows(context, principal, { field: 'prompts_file', id: request.prompts_file, grader })
  const heldOutFile = request.held_out_file ?? null
  if (heldOutFile !== null) {
    if (request.held_out_rows != null) {
      throw new InvalidRequestError('invalid_value', 'held_out_file and held_out_rows both say what is held out', {
        param: 'held_out_rows',
        hint: 'give one',
      })
    }
    await checkRows(context, principal, { field: 'held_out_file', id: heldOutFile, grader })
  }
  const steps = request.steps ?? DEFAULT_STEPS
  const { grader_tokens: graderTokens, seconds, endpoint_calls: endpointCalls } = request.limits ?? {}
  const spec: LoopSpec = {
    modelId: model.id,
    promptsFileId: request.prompts_file,
    heldOutFileId: heldOutFile,
    heldOutRows: heldOutFile === null ? (request.held_out_rows ?? defaultHeldOut(rows)) : 0,
    grader: request.grader,
    responseFormat: request.response_format ?? null,
    promptsPerStep: request.prompts_per_step ?? Math.min(16, rows),
    answersPerPrompt: request.answers_per_prompt ?? 8,
    steps,
    evaluateEvery: request.evaluate_every ?? Math.max(1, Math.floor(steps / EVALUATIONS)),
    answersPerHeldOut: request.answers_per_held_out ?? 1,
    seed: request.seed ?? randomSeed(),
    sampling: withoutNulls(request.sampling ?? {}),
    training: withoutNulls(request.config ?? {}),
    limits: { graderTokens: graderTokens ?? null, seconds: seconds ?? null, endpointCalls: endpointCalls ?? null },
    ...episode,
  }
  return { owner: { entity: model.entity, project: model.project, keyId: principal.keyId }, spec }
}

/** A tenth, 4 to 200; of few rows as many as leave half of them to train on. */
export const defaultHeldOut = (rows: number): number =>
  Math.min(Math.floor(rows / 2), Math.max(4, Math.min(200, Math.round(rows / 10))))

/** @returns how many rows there are */
async function checkRows(
  { db, blobs }: Pick<ServiceContext, 'db' | 'blobs'>,
  principal: Principal,
  { field, id, grader }: { readonly field: string; readonly id: string; readonly grader: Grader },
): Promise<number> {
  const file = await findFile(db, principal, { id })
  if (file === null) {
    throw new NotFoundError('file_not_found', `${field} "${id.slice(0, 100)}" was not found`, {
      param: field,
      hint: 'upload it with POST /v1/files',
    })
  }
  assertFits(file)
  let rows = 0
  /** Paths of the grader that no row had so far; null: there was none. */
  let missing: readonly string[] | null = null
  for await (const { number, text } of readLines(await blobs.openRead(file.sha256), { maxLineBytes: MOST_ROW_BYTES })) {
    if (text.trim() === '') continue
    const row = readRow(text, `${field}: line ${number}`, field)
    rows += 1
    if (rows > MOST_ROWS) {
      throw new InvalidRequestError('too_many_rows', `${field} has more than ${MOST_ROWS} rows`, {
        param: field,
        hint: 'take fewer: a step asks some of them',
      })
    }
    if (missing?.length === 0) continue
    const here = pathsOfNoRow(grader, [row])
    missing = missing === null ? here : missing.filter((path: string) => here.includes(path))
  }
  if (rows === 0) throw new InvalidRequestError('invalid_prompts', `${field} holds no row`, { param: field })
  if (missing === null || missing.length === 0) return rows
  throw new InvalidRequestError('invalid_grader', `no row of ${field} has ${missing.join(', ')}`, {
    param: 'grader',
    hint: 'item is the row: name a field that rows have, or add it to them',
  })
}

function readRow(text: string, where: string, param: string): JsonObject {
  const wrong = (message: string): InvalidRequestError =>
    new InvalidRequestError('invalid_prompts', `${where} ${message}`, {
      param,
      hint: 'each line is {"messages": […], …} or {"prompt": "…", …}',
    })
  let row: unknown
  try {
    row = JSON.parse(text)
  } catch {
    throw wrong('is not JSON')
  }
  if (!isJsonObject(row)) throw wrong('is no object')
  const { messages, prompt } = row as { readonly messages?: unknown; readonly prompt?: unknown }
  if (typeof prompt === 'string') return row
  if (Array.isArray(messages) && messages.length > 0 && messages.every(isJsonObject)) return row
  throw wrong('has no "messages"')
}
