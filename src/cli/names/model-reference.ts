/**
 * The one grammar for naming a model, and how a name becomes a model of the service.
 *
 * `<uuid>` · `name` · `project/name` · `entity/project/name` · `wandb-artifact:///entity/project/name` (two or three
 * slashes), each optionally with `:stepN`, `:vN` or `:latest`.
 */

import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import { closest } from '#base/util/suggest.js'
import type { Config } from '#cli/config/load.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { eachItem, type PageQuery } from '#sdk/client/pages.js'
import { selectCheckpoint } from '../input/checkpoint-selection.js'
import { UsageError } from '../terminal/errors.js'
import type { Prompts } from '../terminal/prompts.js'

/** A parsed reference. `step` null means the latest checkpoint. */
export interface ModelReference {
  readonly id: string | null
  readonly entity: string | null
  readonly project: string | null
  readonly name: string
  readonly step: number | null
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * Parses a reference without looking anything up.
 *
 * @throws {UsageError} `invalid_model_reference` when it has empty parts or too many
 */
export function parseModelReference(text: string): ModelReference {
  const path = text.replace(/^wandb-artifact:\/{2,3}/, '')
  const match = /^(.*?)(?::(?:latest|step(\d{1,9})|v(\d{1,9})))?$/s.exec(path)
  const parts = (match?.[1] ?? '').split('/')
  const stepText = match?.[2] ?? match?.[3]
  const step = stepText === undefined ? null : Number(stepText)
  const name = parts.at(-1) ?? ''
  if (parts.length > 3 || parts.some((part) => part === '')) {
    throw new UsageError('invalid_model_reference', `<model> "${text}" is not a model name`, {
      param: 'model',
      hint: 'use an id, name, project/name or entity/project/name, with :step3 or :latest if needed',
    })
  }
  if (parts.length === 1 && UUID.test(name)) return { id: name, entity: null, project: null, name, step }
  return { id: null, entity: parts.at(-3) ?? null, project: parts.at(-2) ?? null, name, step }
}

/**
 * Parses a reference to a model as a whole. A checkpoint in it would be passed over in silence, and the command would do to
 * the model what was meant for the checkpoint.
 *
 * @param takesLatest whether the command goes on from the latest checkpoint, so that `:latest` says what it does
 * @throws {UsageError} `invalid_model_reference`, also for one that names a checkpoint
 */
export function parseWholeModel(
  text: string,
  { hint, takesLatest = false }: { readonly hint?: string; readonly takesLatest?: boolean } = {},
): ModelReference {
  const reference = parseModelReference(text)
  const suffix = /:(?:latest|step\d+|v\d+)$/.exec(text)?.[0]
  if (suffix === undefined || (takesLatest && suffix === ':latest')) return reference
  throw new UsageError(
    'invalid_model_reference',
    `<model> "${text}" names a checkpoint; expected a model, ${text.slice(0, -suffix.length)}`,
    { param: 'model', ...(hint === undefined ? {} : { hint }) },
  )
}

/** @throws {UsageError} `conflicting_steps` when a reference names a checkpoint and a flag names one too */
export function assertOneStep(text: string, step: unknown): void {
  if (step === undefined || !/:(?:latest|step\d+|v\d+)$/.test(text)) return
  throw new UsageError('conflicting_steps', `<model> "${text}" and --step both name a checkpoint: give one of them`, {
    param: '--step',
  })
}

/** `name`, or `project/name` when it is not in the configured project: what the next command can be given. */
export function shortName(model: Model, config: Config): string {
  return model.project === config.get('project') ? model.name : `${model.project}/${model.name}`
}

interface LookupOptions {
  readonly client: Client
  readonly config: Config
  readonly signal: AbortSignal
  /** Who can be asked which project is meant. */
  readonly prompts?: Prompts
}

/**
 * Finds the model a reference names.
 *
 * @throws {NotFoundError} `model_not_found` with the nearest name; {ConflictError} `model_ambiguous` with candidates
 */
export async function findModel(reference: ModelReference, lookup: LookupOptions): Promise<Model> {
  const { client, config, signal } = lookup
  if (reference.id !== null) return await getById(reference.id, client, signal)
  const project = reference.project ?? config.get('project')
  const entity = reference.entity ?? config.get('entity') ?? undefined
  const filter = { entity, project, name: reference.name }
  const found: Model[] = []
  for await (const model of eachItem((page) => client.models.list({ ...filter, ...page }, { signal }))) {
    const isSame = model.name === reference.name && model.project === project
    if (isSame && (entity === undefined || model.entity === entity)) found.push(model)
  }
  const [first, second] = found
  if (first === undefined) return await findElsewhere(reference, project, lookup)
  if (second !== undefined) {
    const candidates = found.map((model) => `${model.entity}/${model.project}/${model.name}`).join(', ')
    throw new ConflictError('model_ambiguous', `"${reference.name}" names ${found.length} models: ${candidates}`, {
      hint: 'name it as entity/project/name, or set --entity',
    })
  }
  return first
}

/** What answers a chat request: a model at a step, or a base model under its own name. */
export interface Served {
  readonly name: string
  readonly model: Model | null
  /** null: the latest. */
  readonly step: number | null
}

/**
 * Finds what a person wants to talk to.
 *
 * @param step instead of the reference's own; null for the latest
 * @throws {NotFoundError} when neither a model nor a base model has the name, or the model has no such step
 */
export async function resolveServed(
  { config, signal, prompts }: Pick<LookupOptions, 'config' | 'signal' | 'prompts'>,
  client: Client,
  text: string,
  step?: number | null,
): Promise<Served> {
  try {
    const reference = parseModelReference(text)
    const model = await findModel(reference, { client, config, signal, ...(prompts === undefined ? {} : { prompts }) })
    const at = step === undefined ? reference.step : step
    await assertStep(client, model, at, signal)
    return { name: inferenceName(model, at), model, step: at }
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code === 'checkpoint_not_found') throw error
    const served = (await client.servedModels.list({ signal })).data.map((model) => model.id)
    if (served.includes(text)) return { name: text, model: null, step: null }
    const near = closest(text, served)
    if (!(error instanceof UnknownNameError) || error.suggestion !== undefined || near === undefined) throw error
    throw new UnknownNameError(error.code, error.message, near, error.hint ?? 'trainyard base-models list')
  }
}

/**
 * Looks for the step before anything is asked: the service repeats in its refusal the long address that stands for it here, and
 * a conversation would go on under a step that nobody has. Step 0 is the base model, whether a checkpoint of it is kept or not.
 */
async function assertStep(client: Client, model: Model, step: number | null, signal: AbortSignal): Promise<void> {
  if (step === null || step === 0) return
  const newestFirst = (page: PageQuery) => client.checkpoints.list(model.id, { ...page, order: 'desc' }, { signal })
  const others: Checkpoint[] = []
  for await (const checkpoint of eachItem(newestFirst)) {
    // pages beyond the one that holds it are not asked for
    if (checkpoint.step === step) return
    others.push(checkpoint)
  }
  selectCheckpoint(others, { kind: 'step', step })
}

async function getById(id: string, client: Client, signal: AbortSignal): Promise<Model> {
  try {
    return await client.models.get(id, { signal })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      throw new NotFoundError('model_not_found', `model ${id} was not found`, { hint: 'trainyard models list' })
    }
    throw error
  }
}

/**
 * The one model of that name in another project, unless a project was asked for; else an error with the nearest name. A
 * failure of this second look is not worth an error of its own.
 */
async function findElsewhere(reference: ModelReference, project: string, lookup: LookupOptions): Promise<Model> {
  const { name } = reference
  const known = await lookup.client.models.list({ limit: 100 }, { signal: lookup.signal }).then(
    (page) => page.data,
    () => [],
  )
  const elsewhere = known.filter((model) => model.name === name && model.project !== project)
  const isAsked = reference.project !== null || lookup.config.resolve('project').source !== 'default'
  const [only, second] = elsewhere
  if (only !== undefined && second === undefined && !isAsked) return only
  if (second !== undefined && !isAsked && lookup.prompts?.canAsk === true) {
    const { askForProject } = await import('./ask.js')
    return await askForProject({ prompts: lookup.prompts }, elsewhere)
  }
  const near = closest(
    name,
    known.filter((model) => model.project === project).map((model) => model.name),
  )
  const suggestion = only === undefined ? near : `${only.project}/${only.name}`
  throw new UnknownNameError(
    'model_not_found',
    `model "${name}" was not found in project "${project}"`,
    suggestion,
    known.length === 0 ? 'trainyard models create <name> --base-model <name>' : 'trainyard models list',
  )
}

/** Not found, with the nearest existing name. */
export class UnknownNameError extends NotFoundError {
  readonly suggestion: string | undefined

  constructor(code: string, message: string, suggestion: string | undefined, hint: string) {
    super(code, message, { hint })
    this.suggestion = suggestion
  }
}
