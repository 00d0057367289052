/**
 * Uploaded files: stored as blobs, named by id and optionally by artifact name.
 */

import type { Readable } from 'node:stream'
import { ConflictError, fullMessage, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { SERVICE_SETTINGS } from '#contract/settings/service.js'
import { type DeletedFile, FILE_PURPOSES, type FileObject, type ListFilesQuery } from '#contract/wire/files.js'
import { type List, toList } from '#contract/wire/list.js'
import { findRowProblem } from '#formats/rows/examples/find-row-problem.js'
import { isUniqueViolation } from '#service/storage/database.js'
import { deleteFileRow, type FileRecord, findFile, insertFile, listFiles } from '#service/storage/files.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { digestOf } from './access/request-digest.js'
import { ownerOf } from './access/tenant.js'
import type { Principal, ServiceContext } from './context.js'
import { toWireFile } from './to-wire.js'
import { openRows } from './training/row-stream.js'

/** Largest file there can be; the setting for uploads is at most this. Files are streamed, so size costs disk only. */
export const MAX_UPLOAD_BYTES = SERVICE_SETTINGS.maxUploadBytes.bounds.max

export interface UploadFields {
  readonly filename: string
  readonly purpose: string
  /** `entity/project/name:version`, with or without `wandb-artifact:///`. */
  readonly artifact: string | null
}

export interface FileService {
  /** Streams `body` to disk, then reads `fields`, which may follow the file in a form, and registers it. */
  upload(
    principal: Principal,
    body: AsyncIterable<Uint8Array>,
    fields: () => Promise<UploadFields>,
    idempotencyKey: string | null,
  ): Promise<FileObject>
  list(principal: Principal, query: ListFilesQuery): Promise<List<FileObject>>
  get(principal: Principal, id: string): Promise<FileObject>
  /** The bytes as they were uploaded. */
  open(principal: Principal, id: string): Promise<{ readonly file: FileObject; readonly stream: Readable }>
  /** Jobs that were created with it keep their copy. */
  delete(principal: Principal, id: string): Promise<DeletedFile>
}

/** OpenAI's clients page in big steps. */
const DEFAULT_LIMIT = 10_000

export function createFileService(context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'requestSweep'>): FileService {
  const { db, blobs, ids } = context

  async function requireFile(principal: Principal, id: string): Promise<FileRecord> {
    const file = await findFile(db, principal, { id })
    if (file !== null) return file
    throw new NotFoundError('file_not_found', `No such File object: ${id.slice(0, 100)}`, { param: 'id' })
  }

  /** The file is kept all the same: what it is for is said by a job, and that reads all of it. */
  async function problemOf(sha256: string): Promise<string | null> {
    const problem = await findRowProblem(() => openRows(blobs, sha256, 'the file'))
    return problem === null ? null : fullMessage(problem)
  }

  return {
    list: async (principal, query) => {
      const page = await listFiles(db, principal, {
        after: query.after,
        limit: query.limit ?? DEFAULT_LIMIT,
        order: query.order ?? 'desc',
        purpose: query.purpose,
      })
      return toList(page.items.map(toWireFile), page.hasMore)
    },
    get: async (principal, id) => toWireFile(await requireFile(principal, id)),
    open: async (principal, id) => {
      const file = await requireFile(principal, id)
      return { file: toWireFile(file), stream: await blobs.openRead(file.sha256) }
    },
    delete: async (principal, id) => {
      const file = await requireFile(principal, id)
      await deleteFileRow(db, file.id)
      context.requestSweep()
      return { id: file.id, object: 'file', deleted: true }
    },
    upload: async (principal, body, readFields, idempotencyKey) => {
      const blob = await blobs.put(body, { maxBytes: MAX_UPLOAD_BYTES })
      const fields = await readFields()
      checkPurpose(fields.purpose)
      const artifact = fields.artifact === null ? null : normalizeArtifact(fields.artifact)
      const problem = fields.purpose === 'fine-tune' ? await problemOf(blob.sha256) : null
      const id = `file-${ids.uuid()}`
      const row = {
        id,
        entity: principal.entity,
        project: principal.project,
        filename: fields.filename.slice(0, 512),
        purpose: fields.purpose.slice(0, 64),
        artifact,
        sha256: blob.sha256,
        sizeBytes: blob.sizeBytes,
        problem,
      }
      const scope =
        idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'files' as const, key: idempotencyKey }
      const digest = digestOf([blob.sha256, row.filename, row.purpose, artifact])
      try {
        const before = await inTransaction(db, async (transaction) => {
          const made = scope === null ? null : await findIdempotent(transaction, scope, digest)
          const file = made === null ? null : await findFile(transaction, principal, { id: made })
          if (file !== null) return file
          await insertFile(transaction, row)
          if (scope !== null) await rememberIdempotent(transaction, scope, digest, id)
          return null
        })
        if (before !== null) return toWireFile(before)
      } catch (error) {
        if (!isUniqueViolation(error) || artifact === null) throw error
        const existing = await findFile(db, principal, { artifact })
        if (existing !== null && existing.sha256 === blob.sha256) return toWireFile(existing)
        throw new ConflictError('artifact_exists', `artifact "${artifact}" is registered with other bytes already`, {
          hint: 'an artifact version never changes: use the next version',
        })
      }
      const file = await findFile(db, principal, { id })
      if (file === null) throw new ConflictError('file_deleted', 'the file was deleted while it was stored')
      return toWireFile(file)
    },
  }
}

/** @throws {InvalidRequestError} `invalid_value` */
export function checkPurpose(purpose: string): void {
  if (FILE_PURPOSES.some((known) => known === purpose)) return
  const known = FILE_PURPOSES.map((each) => `"${each}"`).join(', ')
  throw new InvalidRequestError('invalid_value', `purpose must be one of ${known}, got "${purpose.slice(0, 100)}"`, {
    param: 'purpose',
    hint: 'training data is "fine-tune"',
  })
}

/**
 * The one spelling of an artifact name: `entity/project/name:version`.
 *
 * @throws {InvalidRequestError} `invalid_artifact`
 */
export function normalizeArtifact(text: string): string {
  const name = text.replace(/^wandb-artifact:\/\/\/?/, '')
  if (!/^[^/:\s]+\/[^/:\s]+\/[^/:\s]+:[^/:\s]+$/.test(name)) {
    throw new InvalidRequestError(
      'invalid_artifact',
      `artifact must be entity/project/name:version, got "${text.slice(0, 200)}"`,
      { param: 'artifact' },
    )
  }
  return name
}
