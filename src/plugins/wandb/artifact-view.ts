/**
 * Artifacts as the wandb client reads them, whatever they are here: rows it uploaded itself, or checkpoints of a model, which
 * are artifacts of type `lora` named as the model (`stepN`, `vN` and `latest`).
 */
import { createHash } from 'node:crypto'
import { NotFoundError } from '#base/errors/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { ServiceContext } from '#service/operations/context.js'
import {
  type CheckpointRecord,
  findCheckpoint,
  findCheckpointById,
  listCheckpoints,
} from '#service/storage/checkpoints.js'
import { findModel, findModelByName, type ModelRecord } from '#service/storage/models.js'
import { projectInfo, toConnection, toIso, type WandbCall } from './context.js'
import type { Fields } from './execute-query.js'
import {
  type ArtifactRecord,
  aliasesOf,
  type CollectionAddress,
  findArtifact,
  findArtifactByAlias,
  findMetadata,
  listArtifactFiles,
  listArtifacts,
} from './storage/artifacts.js'
import type { ArtifactManifest } from './wire.js'

export const LORA_TYPE = 'lora'
const CHECKPOINT_PREFIX = 'checkpoint-'
const PEFT_FILES: readonly string[] = [ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE]

export interface ArtifactFile {
  readonly name: string
  readonly sha256: string
  readonly sizeBytes: number
  /** Base64. */
  readonly md5: string
}

/** One version of a collection. */
export interface ArtifactView extends CollectionAddress {
  readonly id: string
  readonly type: string
  readonly versionIndex: number | null
  readonly aliases: readonly string[]
  readonly description: string | null
  /** JSON text. */
  readonly metadata: string | null
  readonly digest: string
  readonly files: readonly ArtifactFile[]
  readonly createdAtMs: number
  /** What the manifest's address gives. */
  readonly manifest: { readonly checkpointId: string } | { readonly sha256: string | null }
}

/** @returns null if there is none, or it belongs to somebody else */
export async function findArtifactView(call: WandbCall, id: string): Promise<ArtifactView | null> {
  const { context, principal } = call
  if (id.startsWith(CHECKPOINT_PREFIX))
    return checkpointView(call, await findCheckpointById(context.db, id.slice(CHECKPOINT_PREFIX.length)))
  const artifact = await findArtifact(context.db, principal.entity, { id })
  return artifact === null || !isOwn(principal, artifact) ? null : toView(context, artifact)
}

/** The version that `vN`, `stepN`, `latest` or another alias names; null if there is none. */
export async function findByAlias(
  call: WandbCall,
  address: CollectionAddress,
  alias: string,
): Promise<ArtifactView | null> {
  const { db } = call.context
  const model = await findModelByName(db, address.entity, address.project, address.collection)
  if (model !== null) {
    const step = /^(?:step|v)(\d{1,9})$/.exec(alias)?.[1]
    if (step !== undefined || alias === 'latest') {
      const checkpoint = await findCheckpoint(db, model.id, step === undefined ? 'latest' : Number(step))
      if (checkpoint !== null) return checkpointView(call, checkpoint)
    }
  }
  const artifact = await findArtifactByAlias(db, address, alias)
  if (artifact?.checkpointId !== null && artifact?.checkpointId !== undefined) {
    return checkpointView(call, await findCheckpointById(db, artifact.checkpointId))
  }
  return artifact === null ? null : toView(call.context, artifact)
}

/** All versions of a collection, newest first. */
export async function listViews(call: WandbCall, address: CollectionAddress): Promise<readonly ArtifactView[]> {
  const { context } = call
  const views: ArtifactView[] = []
  const model = await findModelByName(context.db, address.entity, address.project, address.collection)
  if (model !== null) {
    const page = await listCheckpoints(context.db, model.id, { limit: 10_000, order: 'desc' })
    for (const checkpoint of page.items) views.push(await toCheckpointView(context, model, checkpoint))
  }
  for (const artifact of await listArtifacts(context.db, address)) views.push(await toView(context, artifact))
  return views
}

async function checkpointView(call: WandbCall, checkpoint: CheckpointRecord | null): Promise<ArtifactView | null> {
  const model = checkpoint === null ? null : await findModel(call.context.db, checkpoint.modelId)
  if (checkpoint === null || model === null || !isOwn(call.principal, model)) return null
  return toCheckpointView(call.context, model, checkpoint)
}

async function toView(context: Pick<ServiceContext, 'db'>, artifact: ArtifactRecord): Promise<ArtifactView> {
  return {
    ...artifact,
    aliases: await aliasesOf(context.db, artifact.id),
    metadata: await findMetadata(context.db, artifact.id),
    files: await listArtifactFiles(context.db, artifact.id),
    manifest: { sha256: artifact.manifestSha256 },
  }
}

async function toCheckpointView(
  context: Pick<ServiceContext, 'db' | 'blobs'>,
  model: ModelRecord,
  checkpoint: CheckpointRecord,
): Promise<ArtifactView> {
  const files: ArtifactFile[] = []
  for (const file of checkpoint.files) {
    // what PEFT reads: optimizer and manifest are ours
    if (PEFT_FILES.includes(file.name)) files.push({ ...file, md5: await md5Of(context, file.sha256) })
  }
  const id = `${CHECKPOINT_PREFIX}${checkpoint.id}`
  const noted = await findMetadata(context.db, id)
  const latest = await findCheckpoint(context.db, model.id, 'latest')
  return {
    id,
    entity: model.entity,
    project: model.project,
    collection: model.name,
    type: LORA_TYPE,
    versionIndex: checkpoint.step,
    aliases: [`step${checkpoint.step}`, ...(latest?.id === checkpoint.id ? ['latest'] : [])],
    description: null,
    metadata: JSON.stringify({
      'wandb.base_model': model.baseModel,
      ...checkpoint.metrics,
      ...(noted === null ? {} : (JSON.parse(noted) as object)),
    }),
    digest: digestOf(files),
    files,
    createdAtMs: checkpoint.createdAtMs,
    manifest: { checkpointId: checkpoint.id },
  }
}

/** wandb's digest of an artifact: MD5 over its manifest in a fixed spelling, hex. Source: wandb `ArtifactManifestV1.digest`. */
export function digestOf(files: readonly { readonly name: string; readonly md5: string }[]): string {
  const hash = createHash('md5').update('wandb-artifact-manifest-v1\n')
  for (const file of [...files].sort((a, b) => (a.name < b.name ? -1 : 1))) hash.update(`${file.name}:${file.md5}\n`)
  return hash.digest('hex')
}

/** MD5 of blobs by their SHA-256: they never change. */
const md5Cache = new Map<string, string>()
const MAX_CACHED = 10_000

async function md5Of(context: Pick<ServiceContext, 'blobs'>, sha256: string): Promise<string> {
  const known = md5Cache.get(sha256)
  if (known !== undefined) return known
  const hash = createHash('md5')
  for await (const chunk of await context.blobs.openRead(sha256)) hash.update(chunk as Uint8Array)
  const md5 = hash.digest('base64')
  if (md5Cache.size >= MAX_CACHED) md5Cache.clear()
  md5Cache.set(sha256, md5)
  return md5
}

/** `wandb_manifest.json` of a checkpoint. @throws {NotFoundError} `artifact_not_found` */
export async function checkpointManifest(
  context: Pick<ServiceContext, 'db' | 'blobs'>,
  checkpointId: string,
): Promise<ArtifactManifest> {
  const checkpoint = await findCheckpointById(context.db, checkpointId)
  const model = checkpoint === null ? null : await findModel(context.db, checkpoint.modelId)
  if (checkpoint === null || model === null) throw new NotFoundError('artifact_not_found', 'the checkpoint was deleted')
  const view = await toCheckpointView(context, model, checkpoint)
  const contents = view.files.map((file) => [
    file.name,
    { digest: file.md5, size: file.sizeBytes, birthArtifactID: view.id },
  ])
  return {
    version: 1,
    storagePolicy: 'wandb-storage-policy-v1',
    storagePolicyConfig: { storageLayout: 'V2' },
    contents: Object.fromEntries(contents),
  }
}

/** The collection of a version. */
export function collectionFields(
  address: CollectionAddress & { readonly type: string; readonly createdAtMs: number },
): Fields {
  return {
    __typename: 'ArtifactSequence',
    id: `collection-${address.entity}/${address.project}/${address.collection}`,
    name: address.collection,
    description: null,
    state: 'READY',
    digestAlgorithm: 'MANIFEST_MD5',
    createdAt: toIso(address.createdAtMs),
    updatedAt: null,
    project: projectInfo(address.entity, address.project),
    defaultArtifactType: { id: `type-${address.type}`, name: address.type },
    tags: { edges: [] },
  }
}

/** An artifact as fields. */
export function artifactFields(call: WandbCall, view: ArtifactView): Fields {
  const collection = collectionFields(view)
  const aliases = view.aliases.map((alias) => ({
    __typename: 'ArtifactAlias',
    id: `${view.id}:${alias}`,
    alias,
    artifactCollection: collection,
    artifactCollectionName: view.collection,
  }))
  const membership = (): Fields => ({
    __typename: 'ArtifactCollectionMembership',
    id: `membership-${view.id}`,
    versionIndex: view.versionIndex,
    createdAt: toIso(view.createdAtMs),
    aliases,
    artifactCollection: collection,
  })
  const fileNodes = (file: ArtifactFile): Fields => {
    const url = call.addressOf({ kind: 'get_blob', sha256: file.sha256, sizeBytes: file.sizeBytes })
    return {
      __typename: 'File',
      id: `${view.id}/${file.name}`,
      name: file.name,
      displayName: file.name,
      url,
      directUrl: url,
      sizeBytes: file.sizeBytes,
      storagePath: null,
      mimetype: null,
      updatedAt: null,
      digest: file.md5,
      md5: file.md5,
    }
  }
  return {
    __typename: 'Artifact',
    id: view.id,
    artifactSequence: { ...collection, latestArtifact: { id: view.id, versionIndex: view.versionIndex } },
    versionIndex: view.versionIndex,
    artifactType: { id: `type-${view.type}`, name: view.type },
    description: view.description,
    metadata: view.metadata,
    ttlDurationSeconds: -2,
    ttlIsInherited: true,
    tags: [],
    historyStep: null,
    state: view.versionIndex === null ? 'PENDING' : 'COMMITTED',
    size: view.files.reduce((sum, file) => sum + file.sizeBytes, 0),
    digest: view.digest,
    digestAlgorithm: 'MANIFEST_MD5',
    commitHash: view.versionIndex === null ? null : view.digest,
    fileCount: view.files.length,
    createdAt: toIso(view.createdAtMs),
    updatedAt: null,
    aliases,
    currentManifest: () => {
      const { manifest } = view
      const grant =
        'checkpointId' in manifest
          ? ({ kind: 'get_checkpoint_manifest', checkpointId: manifest.checkpointId } as const)
          : manifest.sha256 === null
            ? null
            : ({ kind: 'get_blob', sha256: manifest.sha256, sizeBytes: 0 } as const)
      if (grant === null) return null
      const directUrl = call.addressOf(grant)
      return { id: `manifest-${view.id}`, file: { directUrl, url: directUrl } }
    },
    files: (args) => toConnection(filesNamed(view, args['names']), args, fileNodes),
    filesByManifestEntries: (args) => toConnection(view.files, args, fileNodes),
    artifactMemberships: () => ({ edges: [{ node: membership() }] }),
    artifactCollections: () => ({ edges: [{ node: collection }] }),
    usedBy: { edges: [] },
    createdBy: null,
  }
}

function filesNamed(view: ArtifactView, names: unknown): readonly ArtifactFile[] {
  return Array.isArray(names) ? view.files.filter((file) => names.includes(file.name)) : view.files
}

/** A version as a member of its collection. */
export function membershipFields(call: WandbCall, view: ArtifactView): Fields {
  const artifact = artifactFields(call, view)
  return {
    __typename: 'ArtifactCollectionMembership',
    id: `membership-${view.id}`,
    versionIndex: view.versionIndex,
    createdAt: toIso(view.createdAtMs),
    aliases: artifact['aliases'] ?? [],
    artifactCollection: collectionFields(view),
    artifact,
    files: artifact['files'] ?? null,
  }
}
