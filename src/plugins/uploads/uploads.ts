/**
 * Uploads in parts. A part is a blob that a row names, so that no sweep takes it while its upload is open; joined they become a
 * file by what makes every file, with the checks of its purpose.
 *
 * An upload lives an hour, and so does its row: what came of it is the file. Completing it once more within that time answers
 * the same.
 */
import { createHash } from 'node:crypto'
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { checkPurpose, type FileService } from '#service/operations/files.js'
import { toWireFile } from '#service/operations/to-wire.js'
import type { BlobStore } from '#service/storage/blobs.js'
import { findFile } from '#service/storage/files.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  countPending,
  endUpload,
  extendUpload,
  findUpload,
  insertPart,
  insertUpload,
  listParts,
  type PartRecord,
  sumParts,
  type UploadRecord,
} from './storage/uploads.js'
import {
  type CompleteUploadRequest,
  type CreateUploadRequest,
  MAX_PART,
  MAX_PARTS,
  type Upload,
  type UploadPart,
} from './wire.js'

const LIFE_MS = 3_600_000
/** Open uploads of one entity, and the bytes that they may become. */
const MOST_OPEN = 64
const MOST_OPEN_BYTES = 32 * 1024 ** 3

type TakePart = (bytes: AsyncIterable<Uint8Array>, read: Promise<unknown>) => Promise<UploadPart>

interface UploadService {
  create(principal: Principal, request: CreateUploadRequest, idempotencyKey: string | null): Promise<Upload>
  /** Looks whether a part may come before its bytes are read. @param read settles when the request is read to its end */
  openPart(principal: Principal, id: string): Promise<TakePart>
  complete(principal: Principal, id: string, request: CompleteUploadRequest): Promise<Upload>
  cancel(principal: Principal, id: string): Promise<Upload>
}

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'requestSweep'>

export function createUploadService(context: Context, files: Pick<FileService, 'upload'>): UploadService {
  const { db, blobs, ids, clock } = context
  const { requireUpload, requireOpen, toWire, assertRoom } = createUploadReader(context)

  async function end(principal: Principal, id: string, fileId: string | null): Promise<Upload> {
    await inTransaction(db, (transaction) => endUpload(transaction, id, fileId))
    context.requestSweep()
    return toWire(principal, await requireUpload(principal, id))
  }

  return {
    create: async (principal, request, idempotencyKey) => {
      const nowMs = clock.nowMs()
      const upload = newUpload(principal, request, `upload_${ids.uuid()}`, nowMs)
      const scope = idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'uploads', key: idempotencyKey }
      const digest = digestOf(request)
      const before = await inTransaction(db, async (transaction) => {
        const made = scope === null ? null : await findIdempotent(transaction, scope, digest)
        const known = made === null ? null : await findUpload(transaction, principal, made)
        if (known !== null) return known
        const open = await countPending(transaction, principal.entity, nowMs)
        if (open.count >= MOST_OPEN || open.sizeBytes + upload.sizeBytes > MOST_OPEN_BYTES) throw tooMany(open)
        await insertUpload(transaction, upload)
        if (scope !== null) await rememberIdempotent(transaction, scope, digest, upload.id)
        return null
      })
      return toWire(principal, before ?? upload)
    },
    openPart: async (principal, id) => {
      const upload = await requireOpen(principal, id)
      await assertRoom(upload)
      return async (bytes, read) => {
        const { sha256, sizeBytes } = await blobs.put(bytes, { maxBytes: MAX_PART })
        await read
        const part: PartRecord = {
          id: `part_${ids.uuid()}`,
          uploadId: upload.id,
          sha256,
          sizeBytes,
          createdAtMs: clock.nowMs(),
        }
        await inTransaction(db, async (transaction) => {
          await assertRoom(upload, transaction, sizeBytes)
          // one that was cancelled or swept meanwhile takes no more
          if (!(await insertPart(transaction, part))) throw gone(upload.id)
        })
        const created_at = Math.floor(part.createdAtMs / 1000)
        return { id: part.id, object: 'upload.part', created_at, upload_id: upload.id }
      }
    },
    complete: async (principal, id, request) => {
      const known = await requireUpload(principal, id)
      if (known.status === 'completed') return toWire(principal, known)
      const upload = await requireOpen(principal, id)
      const parts = pick(await listParts(db, upload.id), request.part_ids)
      const total = parts.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
      if (total !== upload.sizeBytes) {
        throw new InvalidRequestError(
          'upload_size_mismatch',
          `the parts have ${total} bytes together, and the upload was begun for ${upload.sizeBytes}`,
          { param: 'part_ids', hint: 'name every part once, in the order of the file' },
        )
      }
      // joining gigabytes may take longer than what is left of its hour
      await extendUpload(db, upload.id, upload.createdAtMs + 2 * LIFE_MS)
      const hash = createHash('md5')
      const file = await files.upload(
        principal,
        joined(blobs, parts, hash),
        async () => {
          assertMd5(request.md5 ?? null, hash.digest('hex'))
          await requireOpen(principal, id)
          return { filename: upload.filename, purpose: upload.purpose, artifact: null }
        },
        // no header holds a line break: completed twice at once it is one file
        `upload\n${upload.id}`,
      )
      return end(principal, upload.id, file.id)
    },
    cancel: async (principal, id) => {
      const upload = await requireOpen(principal, id)
      return end(principal, upload.id, null)
    },
  }
}

/** @throws {InvalidRequestError} for what files cannot have */
function newUpload(principal: Principal, request: CreateUploadRequest, id: string, nowMs: number): UploadRecord {
  checkPurpose(request.purpose)
  if (request.expires_after != null) {
    throw new InvalidRequestError(
      'unsupported_parameter',
      'expires_after is not supported: files stay until they are deleted',
      { param: 'expires_after', hint: 'leave it out and delete the file when it is no longer needed' },
    )
  }
  return {
    id,
    entity: principal.entity,
    project: principal.project,
    filename: request.filename,
    purpose: request.purpose,
    sizeBytes: request.bytes,
    status: 'pending',
    fileId: null,
    createdAtMs: nowMs,
    expiresAtMs: nowMs + LIFE_MS,
  }
}

/** Uploads as they are found, and what one says of itself. */
function createUploadReader({ db, clock }: Pick<Context, 'db' | 'clock'>) {
  async function requireUpload(principal: Principal, id: string): Promise<UploadRecord> {
    const upload = await findUpload(db, principal, id)
    if (upload === null) {
      throw new NotFoundError('upload_not_found', `No such Upload object: ${id.slice(0, 100)}`, {
        hint: 'an upload is forgotten an hour after it was begun',
        param: 'upload_id',
      })
    }
    return upload.status === 'pending' && upload.expiresAtMs <= clock.nowMs()
      ? { ...upload, status: 'expired' }
      : upload
  }

  async function requireOpen(principal: Principal, id: string): Promise<UploadRecord> {
    const upload = await requireUpload(principal, id)
    if (upload.status === 'pending') return upload
    throw new InvalidRequestError(`upload_${upload.status}`, `upload ${upload.id} is ${upload.status} already`, {
      hint: 'begin another one with POST /v1/uploads',
    })
  }

  async function toWire(principal: Principal, upload: UploadRecord): Promise<Upload> {
    const file = upload.fileId === null ? null : await findFile(db, principal, { id: upload.fileId })
    return {
      id: upload.id,
      object: 'upload',
      bytes: upload.sizeBytes,
      created_at: Math.floor(upload.createdAtMs / 1000),
      filename: upload.filename,
      purpose: upload.purpose,
      status: upload.status,
      expires_at: Math.floor(upload.expiresAtMs / 1000),
      // one that was deleted since is gone
      file: file === null ? null : toWireFile(file),
    }
  }

  /** A part that is sent again after its answer was lost is there twice: twice the file is room enough. */
  async function assertRoom(
    upload: UploadRecord,
    within: Parameters<typeof sumParts>[0] = db,
    more = 0,
  ): Promise<void> {
    const held = await sumParts(within, upload.id)
    const most = 2 * upload.sizeBytes + MAX_PART
    if (held.count < MAX_PARTS && held.sizeBytes + more <= most) return
    throw new InvalidRequestError(
      'too_many_parts',
      `upload ${upload.id} holds ${held.count} parts with ${held.sizeBytes} bytes already; at most ${MAX_PARTS} parts with ${most} bytes are kept`,
      { hint: 'complete it with the parts that are there, or cancel it' },
    )
  }

  return { requireUpload, requireOpen, toWire, assertRoom }
}

/** The bytes of parts one after the other; memory is a piece of one. */
async function* joined(
  blobs: Pick<BlobStore, 'openRead'>,
  parts: readonly PartRecord[],
  hash: { update(bytes: Uint8Array): unknown },
): AsyncGenerator<Uint8Array> {
  for (const { sha256 } of parts) {
    for await (const bytes of await blobs.openRead(sha256)) {
      hash.update(bytes as Uint8Array)
      yield bytes as Uint8Array
    }
  }
}

function pick(parts: readonly PartRecord[], partIds: readonly string[]): readonly PartRecord[] {
  const left = new Map(parts.map((part) => [part.id, part]))
  return partIds.map((id, i) => {
    const part = left.get(id)
    if (part === undefined) {
      throw new InvalidRequestError(
        'unknown_part',
        `part_ids[${i}] must be a part of this upload, named once, got "${id}"`,
        {
          param: 'part_ids',
        },
      )
    }
    left.delete(id)
    return part
  })
}

function assertMd5(wanted: string | null, found: string): void {
  if (wanted === null || wanted.toLowerCase() === found) return
  throw new InvalidRequestError('md5_mismatch', `the joined parts have the MD5 ${found}, expected "${wanted}"`, {
    param: 'md5',
    hint: 'send the parts again: what arrived is not what you have',
  })
}

function tooMany({ count, sizeBytes }: { readonly count: number; readonly sizeBytes: number }): AppError {
  return new AppError(
    'rate_limited',
    'too_many_uploads',
    `${count} uploads for ${sizeBytes} bytes are open; an entity may have ${MOST_OPEN} for ${MOST_OPEN_BYTES} bytes`,
    { hint: 'complete or cancel some; each is forgotten after an hour', details: { retry_after_seconds: 60 } },
  )
}

function gone(id: string): InvalidRequestError {
  return new InvalidRequestError('upload_closed', `upload ${id} was closed while the part came`, {
    hint: 'begin another one with POST /v1/uploads',
  })
}
