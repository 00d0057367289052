/**
 * Rows of artifacts the wandb client uploads. One without a version is still being uploaded and found by its id only.
 */
import type { Selectable } from 'kysely'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type WandbArtifactsTable, wandbTables } from './tables.js'

export interface CollectionAddress {
  readonly entity: string
  readonly project: string
  readonly collection: string
}

export interface ArtifactRecord extends CollectionAddress {
  readonly id: string
  readonly type: string
  readonly clientId: string | null
  readonly versionIndex: number | null
  readonly digest: string
  readonly description: string | null
  readonly wantedAliases: readonly string[]
  readonly manifestSha256: string | null
  readonly checkpointId: string | null
  readonly createdAtMs: number
}

export interface ArtifactFileRecord {
  readonly name: string
  readonly sha256: string
  readonly md5: string
  readonly sizeBytes: number
}

export type NewArtifact = Pick<
  ArtifactRecord,
  'id' | 'entity' | 'project' | 'collection' | 'type' | 'clientId' | 'digest' | 'description' | 'wantedAliases'
>

export async function insertArtifact(db: Database, artifact: NewArtifact): Promise<void> {
  await wandbTables(db)
    .insertInto('wandb_artifacts')
    .values({
      id: artifact.id,
      entity: artifact.entity,
      project: artifact.project,
      collection: artifact.collection,
      type: artifact.type,
      client_id: artifact.clientId,
      version_index: null,
      digest: artifact.digest,
      description: artifact.description,
      wanted_aliases: JSON.stringify(artifact.wantedAliases),
      manifest_sha256: null,
      checkpoint_id: null,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

export async function findArtifact(
  db: Database,
  entity: string,
  key: { readonly id: string } | { readonly clientId: string },
): Promise<ArtifactRecord | null> {
  const query = wandbTables(db).selectFrom('wandb_artifacts').selectAll().where('entity', '=', entity)
  const row = await ('id' in key
    ? query.where('id', '=', key.id)
    : query.where('client_id', '=', key.clientId).orderBy('id', 'desc')
  ).executeTakeFirst()
  return row === undefined ? null : toArtifact(row)
}

/** Committed artifacts of a collection, newest first. Those that became checkpoints are left out: checkpoints show them. */
export async function listArtifacts(db: Database, address: CollectionAddress): Promise<readonly ArtifactRecord[]> {
  const rows = await wandbTables(db)
    .selectFrom('wandb_artifacts')
    .selectAll()
    .where('entity', '=', address.entity)
    .where('project', '=', address.project)
    .where('collection', '=', address.collection)
    .where('version_index', 'is not', null)
    .where('checkpoint_id', 'is', null)
    .orderBy('version_index', 'desc')
    .execute()
  return rows.map(toArtifact)
}

/** The artifact that `vN` or an alias names. */
export async function findArtifactByAlias(
  db: Database,
  address: CollectionAddress,
  alias: string,
): Promise<ArtifactRecord | null> {
  const version = /^v(\d{1,9})$/.exec(alias)?.[1]
  const query = wandbTables(db)
    .selectFrom('wandb_artifacts')
    .selectAll('wandb_artifacts')
    .where('wandb_artifacts.entity', '=', address.entity)
    .where('wandb_artifacts.project', '=', address.project)
    .where('wandb_artifacts.collection', '=', address.collection)
  const row = await (version === undefined
    ? query
        .innerJoin('wandb_aliases', 'wandb_aliases.artifact_id', 'wandb_artifacts.id')
        .where('wandb_aliases.alias', '=', alias)
    : query.where('version_index', '=', Number(version))
  ).executeTakeFirst()
  return row === undefined ? null : toArtifact(row)
}

/** Names beside `vN` an artifact answers to. */
export async function aliasesOf(db: Database, artifactId: string): Promise<readonly string[]> {
  const rows = await wandbTables(db)
    .selectFrom('wandb_aliases')
    .select('alias')
    .where('artifact_id', '=', artifactId)
    .orderBy('alias')
    .execute()
  return rows.map((row) => row.alias)
}

/** Gives a committed artifact its version and its aliases, which others of the collection lose; call inside a transaction. */
export async function commitArtifact(
  db: Database,
  artifact: ArtifactRecord,
  aliases: readonly string[],
): Promise<number> {
  const { entity, project, collection } = artifact
  const newest = await wandbTables(db)
    .selectFrom('wandb_artifacts')
    .select((select) => select.fn.max('version_index').as('version'))
    .where('entity', '=', entity)
    .where('project', '=', project)
    .where('collection', '=', collection)
    .executeTakeFirst()
  const version = newest?.version === null || newest?.version === undefined ? 0 : Number(newest.version) + 1
  await wandbTables(db)
    .updateTable('wandb_artifacts')
    .set({ version_index: version })
    .where('id', '=', artifact.id)
    .execute()
  for (const alias of aliases) await setAlias(db, artifact, alias)
  return version
}

/** Gives an artifact an alias, which another one of its collection loses. */
export async function setAlias(db: Database, artifact: ArtifactRecord, alias: string): Promise<void> {
  const { entity, project, collection } = artifact
  await wandbTables(db)
    .insertInto('wandb_aliases')
    .values({ entity, project, collection, alias, artifact_id: artifact.id })
    .onConflict((conflict) =>
      conflict.columns(['entity', 'project', 'collection', 'alias']).doUpdateSet({ artifact_id: artifact.id }),
    )
    .execute()
}

export async function removeAlias(db: Database, artifact: ArtifactRecord, alias: string): Promise<void> {
  await wandbTables(db)
    .deleteFrom('wandb_aliases')
    .where('artifact_id', '=', artifact.id)
    .where('alias', '=', alias)
    .execute()
}

/** Deletes an artifact with its files' rows and aliases; call inside a transaction. */
export async function deleteArtifactRow(db: Database, id: string): Promise<void> {
  await wandbTables(db).deleteFrom('wandb_metadata').where('artifact_id', '=', id).execute()
  await wandbTables(db).deleteFrom('wandb_artifacts').where('id', '=', id).execute()
}

export async function setArtifactManifest(db: Database, id: string, sha256: string): Promise<void> {
  await wandbTables(db).updateTable('wandb_artifacts').set({ manifest_sha256: sha256 }).where('id', '=', id).execute()
}

export async function setArtifactCheckpoint(db: Database, id: string, checkpointId: string): Promise<void> {
  await wandbTables(db)
    .updateTable('wandb_artifacts')
    .set({ checkpoint_id: checkpointId })
    .where('id', '=', id)
    .execute()
}

/** Stores a file of an artifact; the same name again replaces it. */
export async function putArtifactFile(db: Database, artifactId: string, file: ArtifactFileRecord): Promise<void> {
  const values = { sha256: file.sha256, md5: file.md5, size_bytes: file.sizeBytes }
  await wandbTables(db)
    .insertInto('wandb_artifact_files')
    .values({ artifact_id: artifactId, name: file.name, ...values })
    .onConflict((conflict) => conflict.columns(['artifact_id', 'name']).doUpdateSet(values))
    .execute()
}

export async function listArtifactFiles(db: Database, artifactId: string): Promise<readonly ArtifactFileRecord[]> {
  const rows = await wandbTables(db)
    .selectFrom('wandb_artifact_files')
    .selectAll()
    .where('artifact_id', '=', artifactId)
    .orderBy('name')
    .execute()
  return rows.map((row) => ({ name: row.name, sha256: row.sha256, md5: row.md5, sizeBytes: row.size_bytes }))
}

/** JSON text of what the client noted about an artifact; null if nothing. */
export async function findMetadata(db: Database, artifactId: string): Promise<string | null> {
  const row = await wandbTables(db)
    .selectFrom('wandb_metadata')
    .select('metadata')
    .where('artifact_id', '=', artifactId)
    .executeTakeFirst()
  return row?.metadata ?? null
}

export async function putMetadata(db: Database, artifactId: string, metadata: string): Promise<void> {
  await wandbTables(db)
    .insertInto('wandb_metadata')
    .values({ artifact_id: artifactId, metadata })
    .onConflict((conflict) => conflict.column('artifact_id').doUpdateSet({ metadata }))
    .execute()
}

/** Steps of a model that were published as artifacts. */
export async function listNamedSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await wandbTables(db)
    .selectFrom('wandb_artifacts as a')
    .innerJoin('checkpoints as c', 'c.id', 'a.checkpoint_id')
    .select('c.step')
    .where('c.model_id', '=', modelId)
    .execute()
  return rows.map(({ step }) => step)
}

function toArtifact(row: Selectable<WandbArtifactsTable>): ArtifactRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    collection: row.collection,
    type: row.type,
    clientId: row.client_id,
    versionIndex: row.version_index,
    digest: row.digest,
    description: row.description,
    wantedAliases: JSON.parse(row.wanted_aliases) as string[],
    manifestSha256: row.manifest_sha256,
    checkpointId: row.checkpoint_id,
    createdAtMs: row.created_at_ms,
  }
}
