/**
 * An uploaded adapter becomes a checkpoint: what a client's fork of a checkpoint means here. The next job trains from it and
 * chat answers with it at once. The optimizer starts anew.
 */
import { createHash } from 'node:crypto'
import { JOB_KINDS } from '#api/wire/job-words.js'
import { ConflictError, InvalidRequestError } from '#base/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, decodeAdapter } from '#model/weights/adapter.js'
import { encodeManifest, MANIFEST_FILE } from '#model/weights/checkpoint-manifest.js'
import { insertCheckpoint, type NewCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { findModel, findModelByName, type ModelRecord, setModelStep } from '#service/storage/models.js'
import { type ArtifactFileRecord, type ArtifactRecord, listArtifactFiles } from '#service/storage/wandb/artifacts.js'
import type { ServiceContext } from '../context.js'

/** A model, and the checked files of its new checkpoint. */
export interface Adopter {
  readonly model: ModelRecord
  readonly artifactId: string
  readonly step: number
  readonly files: NewCheckpoint['files']
}

const MAX_ADAPTER_BYTES = 512 * 1024 ** 2

/**
 * The model an artifact is named as, once its adapter is checked; null if there is no such model.
 *
 * @throws {InvalidRequestError} `adapter_refused` for another base model or missing files; what `decodeAdapter` throws;
 *   {ConflictError} `step_taken` if the model is at that step already
 */
export async function findAdopter(context: ServiceContext, artifact: ArtifactRecord): Promise<Adopter | null> {
  const model = await findModelByName(context.db, artifact.entity, artifact.project, artifact.collection)
  if (model === null) return null
  const step = stepOf(artifact.wantedAliases) ?? model.step + 1
  assertStep(model, step)
  const uploaded = new Map((await listArtifactFiles(context.db, artifact.id)).map((file) => [file.name, file]))
  const files = [ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE].map((name) => {
    const file = uploaded.get(name)
    if (file === undefined) throw refused(model, `has no ${name}`)
    return file
  })
  await assertFits(context, model, files)
  const manifest = await context.blobs.put([encodeManifest(Object.fromEntries(files.map((file) => [file.name, file])))])
  return { model, artifactId: artifact.id, step, files: [...files, { name: MANIFEST_FILE, ...manifest }] }
}

/** Stores the checkpoint; call inside a transaction. @returns its id */
export async function adoptAdapter(context: ServiceContext, db: Database, adopter: Adopter): Promise<string> {
  const { model, step, files } = adopter
  const current = await findModel(db, model.id)
  if (current === null) throw new ConflictError('model_deleted', `model "${model.name}" was deleted`)
  assertStep(current, step)
  const id = context.ids.uuid()
  const hash = createHash('sha256')
  for (const file of files.slice(0, 2)) hash.update(file.sha256)
  await insertCheckpoint(db, {
    id,
    modelId: model.id,
    step,
    // tells which optimizer state may be continued: here there is none, so any kind will do
    kind: JOB_KINDS[0],
    jobId: adopter.artifactId,
    adapterDigest: hash.digest('hex'),
    metrics: {},
    files,
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

async function assertFits(
  context: ServiceContext,
  model: ModelRecord,
  files: readonly ArtifactFileRecord[],
): Promise<void> {
  const contents = new Map<string, Uint8Array>()
  for (const file of files) {
    if (file.sizeBytes > MAX_ADAPTER_BYTES) throw refused(model, `has a ${file.name} of ${file.sizeBytes} bytes`)
    const chunks: Uint8Array[] = []
    for await (const chunk of await context.blobs.openRead(file.sha256)) chunks.push(chunk as Uint8Array)
    contents.set(file.name, Buffer.concat(chunks))
  }
  decodeAdapter(contents)
  const config = JSON.parse(Buffer.from(contents.get(ADAPTER_CONFIG_FILE) ?? []).toString()) as Record<string, unknown>
  const base = config['base_model_name_or_path']
  if (base !== model.baseModel) {
    throw refused(model, `was made for base model "${String(base).slice(0, 100)}", the model has "${model.baseModel}"`)
  }
}

function refused(model: ModelRecord, reason: string): InvalidRequestError {
  return new InvalidRequestError(
    'adapter_refused',
    `the adapter cannot become a checkpoint of model "${model.name}": it ${reason}`,
  )
}
