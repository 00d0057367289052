/**
 * Uploading artifacts: created, filled at signed addresses, committed; then found by `vN` and aliases.
 *
 * An artifact never changes once it is committed; only its aliases and its metadata do. One of type `lora` whose name is a
 * model's becomes a checkpoint of that model when it is committed (`adopt-adapter.ts`).
 */

import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import { RequestValidationError } from '#contract/wire/errors.js'
import { isOwn } from '#service/operations/access/tenant.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { adoptAdapter, findAdopter } from './adopt-adapter.js'
import {
  type ArtifactView,
  artifactFields,
  collectionFields,
  findArtifactView,
  findByAlias,
  LORA_TYPE,
  listViews,
  membershipFields,
} from './artifact-view.js'
import { ARTIFACT_MANIFEST } from './bodies.js'
import {
  inputOf,
  jsonObjectText,
  optionalText,
  ownEntity,
  ownProject,
  textOf,
  toConnection,
  type WandbCall,
} from './context.js'
import type { Arguments, Fields } from './execute-query.js'
import {
  type ArtifactRecord,
  commitArtifact,
  deleteArtifactRow,
  findArtifact,
  insertArtifact,
  listArtifactFiles,
  listArtifacts,
  putMetadata,
  removeAlias,
  setAlias,
  setArtifactCheckpoint,
} from './storage/artifacts.js'
import type { ArtifactManifest } from './wire.js'

const FORBIDDEN_IN_NAMES = /[/:\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u

/** The queries and mutations of artifacts. */
export function artifactRootFields(call: WandbCall): { readonly query: Fields; readonly mutation: Fields } {
  const { db } = call.context
  return {
    query: {
      artifact: async (args) => {
        const view = await findArtifactView(call, textOf(args, 'id'))
        return view === null ? null : artifactFields(call, view)
      },
      clientIDMapping: async (args) => {
        const artifact = await findArtifact(db, call.principal.entity, { clientId: textOf(args, 'clientID') })
        return artifact === null || !isOwn(call.principal, artifact) ? null : { serverID: artifact.id }
      },
    },
    mutation: {
      createArtifact: async (args) => ({ artifact: await create(call, inputOf(args)) }),
      createArtifactManifest: async (args) => ({
        artifactManifest: await manifestTarget(call, inputOf(args), 'artifactID'),
      }),
      updateArtifactManifest: async (args) => ({
        artifactManifest: await manifestTarget(call, inputOf(args), 'artifactManifestID'),
      }),
      createArtifactFiles: async (args) => ({ files: await fileTargets(call, inputOf(args)) }),
      commitArtifact: async (args) => ({ artifact: await commit(call, textOf(inputOf(args), 'artifactID')) }),
      updateArtifact: async (args) => ({ artifact: await update(call, inputOf(args)) }),
      addAliases: async (args) => ({ success: await changeAliases(call, inputOf(args), 'add') }),
      deleteAliases: async (args) => ({ success: await changeAliases(call, inputOf(args), 'remove') }),
      deleteArtifact: async (args) => {
        const artifact = await requireRow(call, textOf(inputOf(args), 'artifactID'))
        await inTransaction(db, (transaction) => deleteArtifactRow(transaction, artifact.id))
        call.context.requestSweep()
        return { artifact: { id: artifact.id, state: 'DELETED' } }
      },
      useArtifact: async (args) => {
        const view = await requireView(call, textOf(inputOf(args), 'artifactID'))
        return { artifact: artifactFields(call, view) }
      },
    },
  }
}

/** The artifacts of a project by type, collection and `collection:alias`. */
export function projectArtifactFields(call: WandbCall, entity: string, project: string): Fields {
  const collectionOf = async (name: string): Promise<Fields | null> => {
    const address = { entity, project, collection: name }
    const views = await listViews(call, address)
    const [newest] = views
    if (newest === undefined) return null
    return {
      ...collectionFields(newest),
      artifacts: (args) =>
        toConnection(
          views,
          args,
          (view) => artifactFields(call, view),
          (view) => ({ version: `v${view.versionIndex}` }),
        ),
      aliases: (args) =>
        toConnection(
          views.flatMap((view) => artifactFields(call, view)['aliases'] as readonly Fields[]),
          args,
          (alias) => alias,
        ),
      artifactMembership: async (args) => {
        const view = await findByAlias(call, address, textOf(args, 'aliasName'))
        return view === null ? null : membershipFields(call, view)
      },
    }
  }
  const findNamed = async (args: Arguments): Promise<ArtifactView | null> => {
    const [collection = '', alias = 'latest'] = textOf(args, 'name', 1024).split(':')
    return findByAlias(call, { entity, project, collection }, alias)
  }
  return {
    artifactType: (args) => {
      const type = textOf(args, 'name')
      return {
        __typename: 'ArtifactType',
        id: `type-${type}`,
        name: type,
        description: null,
        createdAt: new Date(0).toISOString(),
        artifactCollection: (inner) => collectionOf(textOf(inner, 'name')),
      }
    },
    artifactCollection: (args) => collectionOf(textOf(args, 'name')),
    artifactCollectionMembership: async (args) => {
      const view = await findNamed(args)
      return view === null ? null : membershipFields(call, view)
    },
    artifact: async (args) => {
      const view = await findNamed(args)
      return view === null ? null : artifactFields(call, view)
    },
  }
}

async function create(call: WandbCall, input: Arguments): Promise<Fields> {
  const { db, ids } = call.context
  const address = {
    entity: ownEntity(call, input['entityName']),
    project: ownProject(call, textOf(input, 'projectName')),
    collection: requireName(textOf(input, 'artifactCollectionName')),
  }
  const type = textOf(input, 'artifactTypeName')
  const digest = textOf(input, 'digest')
  const aliases = aliasNames(input['aliases'])
  const metadata = jsonObjectText(input, 'metadata')
  const same = (await listArtifacts(db, address)).find((artifact) => artifact.digest === digest)
  if (same !== undefined) {
    // the same bytes again are the same version; it only gains the names
    await inTransaction(db, async (transaction) => {
      for (const alias of aliases) await setAlias(transaction, same, alias)
    })
    return requireFields(call, same.id)
  }
  const id = ids.uuid()
  await inTransaction(db, async (transaction) => {
    await insertArtifact(transaction, {
      ...address,
      id,
      type,
      clientId: optionalText(input, 'clientID'),
      digest,
      description: optionalText(input, 'description'),
      wantedAliases: aliases,
    })
    if (metadata !== null) await putMetadata(transaction, id, metadata)
  })
  return requireFields(call, id)
}

/** Where the manifest is sent. The id of a manifest is the artifact's. */
async function manifestTarget(call: WandbCall, input: Arguments, nameOfId: string): Promise<Fields> {
  const artifact = await requirePending(call, textOf(input, nameOfId).replace(/^manifest-/, ''))
  return {
    id: `manifest-${artifact.id}`,
    file: {
      id: `manifest-${artifact.id}/file`,
      name: 'wandb_manifest.json',
      displayName: 'wandb_manifest.json',
      uploadUrl: call.addressOf({ kind: 'put_manifest', artifactId: artifact.id }),
      uploadHeaders: [],
    },
  }
}

async function fileTargets(call: WandbCall, input: Arguments): Promise<Fields> {
  const specifications = Array.isArray(input['artifactFiles']) ? (input['artifactFiles'] as readonly JsonValue[]) : []
  const nodes: Fields[] = []
  const known = new Map<string, ArtifactRecord>()
  for (const value of specifications) {
    const file = inputOf({ input: value })
    const id = textOf(file, 'artifactID')
    const artifact = known.get(id) ?? (await requirePending(call, id))
    known.set(id, artifact)
    const name = textOf(file, 'name', 1024)
    const grant = { kind: 'put_artifact_file', artifactId: artifact.id, name, md5: textOf(file, 'md5') } as const
    nodes.push({
      id: `${artifact.id}/${name}`,
      name,
      displayName: name,
      storagePath: null,
      uploadUrl: call.addressOf(grant),
      uploadHeaders: [],
      uploadMultipartUrls: null,
      artifact: { id: artifact.id },
    })
  }
  return { edges: nodes.map((node) => ({ node })) }
}

async function commit(call: WandbCall, id: string): Promise<Fields> {
  const { db } = call.context
  const artifact = await requireRow(call, id)
  if (artifact.versionIndex !== null) return requireFields(call, id)
  await assertComplete(call, artifact)
  const adopter = artifact.type === LORA_TYPE ? await findAdopter(call.context, call.principal.keyId, artifact) : null
  await inTransaction(db, async (transaction) => {
    const aliases = new Set([...artifact.wantedAliases, 'latest'])
    await commitArtifact(transaction, artifact, [...aliases])
    if (adopter === null) return
    const checkpointId = await adoptAdapter(call.context, transaction, adopter)
    await setArtifactCheckpoint(transaction, artifact.id, checkpointId)
  })
  return requireFields(call, id)
}

/** @throws {InvalidRequestError} `artifact_incomplete` unless every file of the manifest was uploaded with its digest */
async function assertComplete(call: WandbCall, artifact: ArtifactRecord): Promise<void> {
  if (artifact.manifestSha256 === null) throw incomplete('its manifest was not uploaded')
  const manifest = await readManifest(call, artifact.manifestSha256)
  const uploaded = new Map((await listArtifactFiles(call.context.db, artifact.id)).map((file) => [file.name, file]))
  for (const [name, { digest, ref }] of Object.entries(manifest.contents)) {
    // a reference names bytes elsewhere, which this server never fetches
    if (ref === undefined && uploaded.get(name)?.md5 !== digest) throw incomplete(`file "${name}" was not uploaded`)
  }
}

/** @throws {InvalidRequestError} `artifact_incomplete` */
async function readManifest({ context, principal }: WandbCall, sha256: string): Promise<ArtifactManifest> {
  const { blobs, bodies } = context
  try {
    return (await bodies.parseFile(ARTIFACT_MANIFEST, await blobs.localFile(sha256), principal.keyId)).value
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.category === 'unavailable') throw cause
    const reason = cause instanceof RequestValidationError ? cause.sentence : cause.message
    throw incomplete(`its manifest cannot be read: ${reason}`, cause)
  }
}

async function update(call: WandbCall, input: Arguments): Promise<Fields> {
  const view = await requireView(call, textOf(input, 'artifactID'))
  const metadata = jsonObjectText(input, 'metadata')
  if (metadata !== null) await putMetadata(call.context.db, view.id, metadata)
  return requireFields(call, view.id)
}

async function changeAliases(call: WandbCall, input: Arguments, change: 'add' | 'remove'): Promise<boolean> {
  const artifact = await requireRow(call, textOf(input, 'artifactID'))
  const aliases = aliasNames(input['aliases'])
  await inTransaction(call.context.db, async (transaction) => {
    for (const alias of aliases) await (change === 'add' ? setAlias : removeAlias)(transaction, artifact, alias)
  })
  return true
}

function aliasNames(value: JsonValue | undefined): readonly string[] {
  if (!Array.isArray(value)) return []
  return (value as readonly JsonValue[]).map((entry) => requireName(textOf(inputOf({ input: entry }), 'alias')))
}

function requireName(name: string): string {
  if (!FORBIDDEN_IN_NAMES.test(name)) return name
  throw new InvalidRequestError(
    'invalid_name',
    `"${name.slice(0, 100)}" must not contain "/", ":" or invisible characters`,
  )
}

async function requireView(call: WandbCall, id: string): Promise<ArtifactView> {
  const view = await findArtifactView(call, id)
  if (view === null) throw notFound(id)
  return view
}

async function requireFields(call: WandbCall, id: string): Promise<Fields> {
  return artifactFields(call, await requireView(call, id))
}

/** A row of the client's own: a checkpoint is changed with the preview API. */
async function requireRow(call: WandbCall, id: string): Promise<ArtifactRecord> {
  const artifact = await findArtifact(call.context.db, call.principal.entity, { id })
  if (artifact === null || !isOwn(call.principal, artifact)) throw notFound(id)
  if (artifact.checkpointId === null) return artifact
  throw new ConflictError('artifact_is_checkpoint', `artifact "${artifact.collection}" is a checkpoint of that model`, {
    hint: 'use /v1/preview/models/{model_id}/checkpoints',
  })
}

async function requirePending(call: WandbCall, id: string): Promise<ArtifactRecord> {
  const artifact = await requireRow(call, id)
  if (artifact.versionIndex === null) return artifact
  throw new ConflictError(
    'artifact_committed',
    `artifact "${artifact.collection}:v${artifact.versionIndex}" is committed and never changes`,
  )
}

function notFound(id: string): NotFoundError {
  return new NotFoundError('artifact_not_found', `artifact "${id.slice(0, 100)}" was not found`)
}

function incomplete(reason: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError('artifact_incomplete', `the artifact cannot be committed: ${reason}`, { cause })
}
