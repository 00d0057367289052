/**
 * An uploaded adapter becomes a checkpoint: what a client's fork of a checkpoint means here. The next job trains from it and
 * chat answers with it at once. The optimizer starts anew.
 */
import { ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import type { ServiceContext } from '#service/operations/context.js'
import { type CheckedAdapter, importAdapter } from '#service/operations/models/import-adapter.js'
import { insertCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { findModel, findModelByName, type ModelRecord, setModelStep } from '#service/storage/models.js'
import { type ArtifactRecord, listArtifactFiles } from './storage/artifacts.js'

/** A model, and its new checkpoint. */
export interface Adopter {
  readonly model: ModelRecord
  readonly artifactId: string
  readonly step: number
  readonly adapter: CheckedAdapter
}

/**
 * The model an artifact is named as, once its adapter is checked; null if there is no such model.
 *
 * @throws {InvalidRequestError} `adapter_refused` for another base model or missing files; what `importAdapter` throws;
 *   {ConflictError} `step_taken` if the model is at that step already
 */
export async function findAdopter(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'logger' | 'exporter' | 'baseModels'>,
  keyId: string,
  artifact: ArtifactRecord,
): Promise<Adopter | null> {
  const model = await findModelByName(context.db, artifact.entity, artifact.project, artifact.collection)
  if (model === null) return null
  const step = stepOf(artifact.wantedAliases) ?? model.step + 1
  assertStep(model, step)
  const base = context.baseModels.find(({ name }) => name === model.baseModel)
  if (base === undefined) throw refused(model, `needs base model "${model.baseModel}", which this server does not have`)
  const uploaded = new Map((await listArtifactFiles(context.db, artifact.id)).map((file) => [file.name, file]))
  const pathOf = async (name: string): Promise<string> => {
    const file = uploaded.get(name)
    if (file === undefined) throw refused(model, `has no ${name}`)
    return context.blobs.localFile(file.sha256)
  }
  const [configPath, weightsPath] = [await pathOf(ADAPTER_CONFIG_FILE), await pathOf(ADAPTER_WEIGHTS_FILE)]
  const given = { keyId, configPath, weightsPath }
  const adapter = await importAdapter(context, base, given)
  assertNamed(model, adapter.facts.namedBaseModel)
  return { model, artifactId: artifact.id, step, adapter }
}

/** Stores the checkpoint; call inside a transaction. @returns its id */
export async function adoptAdapter(
  context: Pick<ServiceContext, 'ids'>,
  db: Database,
  adopter: Adopter,
): Promise<string> {
  const { model, step, adapter } = adopter
  const current = await findModel(db, model.id)
  if (current === null) throw new ConflictError('model_deleted', `model "${model.name}" was deleted`)
  assertStep(current, step)
  const id = context.ids.uuid()
  await insertCheckpoint(db, {
    id,
    modelId: model.id,
    step,
    kind: null,
    jobId: adopter.artifactId,
    adapterDigest: adapter.adapterDigest,
    metrics: {},
    templateKwargs: {},
    files: adapter.files,
  })
  await setModelStep(db, model.id, step)
  return id
}

function stepOf(aliases: readonly string[]): number | null {
  const steps = aliases.flatMap((alias) => /^step(\d{1,9})$/.exec(alias)?.[1] ?? [])
  return steps[0] === undefined ? null : Number(steps[0])
}

function assertStep(model: ModelRecord, step: number): void {
  if (step > model.step) return
  throw new ConflictError(
    'step_taken',
    `model "${model.name}" is at step ${model.step}, step ${step} cannot be added`,
    {
      hint: 'fork into a new model',
    },
  )
}

/**
 * Nothing else says which base model a client meant here, and adapters of two models may have one shape. An adapter that came from
 * this server names it; `from_adapter` states it beside the adapter.
 */
function assertNamed(model: ModelRecord, named: string | null): void {
  if (named === model.baseModel) return
  const made = named === null ? 'names no base model' : `was made for base model "${named.slice(0, 100)}"`
  throw refused(model, `${made}, the model has "${model.baseModel}"`)
}

function refused(model: ModelRecord, reason: string): InvalidRequestError {
  return new InvalidRequestError(
    'adapter_refused',
    `the adapter cannot become a checkpoint of model "${model.name}": it ${reason}`,
    { hint: 'set base_model_name_or_path, or create a model with from_adapter' },
  )
}
