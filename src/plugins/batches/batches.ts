/**
 * What is asked of batches. Who answers their lines is `batch-runner.ts`; both know each other by rows.
 */
import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import { DEFAULT_PAGE_LIMIT, type List, type PageQuery, toList } from '#contract/wire/list.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findFile } from '#service/storage/files.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { MOST_INPUT_BYTES } from './batch-lines.js'
import {
  askToCancel,
  type BatchRecord,
  countOpen,
  findBatch,
  insertBatch,
  listBatches,
  NO_USAGE,
} from './storage/batches.js'
import type { Batch, CreateBatchRequest } from './wire.js'

interface BatchService {
  create(principal: Principal, request: CreateBatchRequest, idempotencyKey: string | null): Promise<Batch>
  list(principal: Principal, query: PageQuery): Promise<List<Batch>>
  get(principal: Principal, id: string): Promise<Batch>
  cancel(principal: Principal, id: string): Promise<Batch>
}

/** Tells who answers lines that there is something new. */
export interface BatchWaker {
  /** There is a new batch. */
  wake(): void
  /** A batch is to end with what it has. */
  cancel(id: string): void
}

export const LIFE_MS = 24 * 3_600_000
/** Batches of one entity that have not ended. */
const MOST_OPEN = 64

export function createBatchService(
  { db, ids, clock }: Pick<ServiceContext, 'db' | 'ids' | 'clock'>,
  waker: BatchWaker,
): BatchService {
  async function requireBatch(principal: Principal, id: string): Promise<BatchRecord> {
    const batch = await findBatch(db, principal, id)
    if (batch !== null) return batch
    throw new NotFoundError('batch_not_found', `No batch found with id '${id.slice(0, 100)}'.`, { param: 'batch_id' })
  }

  return {
    create: async (principal, request, idempotencyKey) => {
      checkRequest(request)
      const file = await findFile(db, principal, { id: request.input_file_id })
      if (file === null) throw invalidFile(`no file "${request.input_file_id.slice(0, 100)}" is known`)
      if (file.purpose !== 'batch') throw invalidFile(`the file has the purpose "${file.purpose}", expected "batch"`)
      if (file.sizeBytes > MOST_INPUT_BYTES) {
        throw invalidFile(`the file has ${file.sizeBytes} bytes, a batch takes ${MOST_INPUT_BYTES}`)
      }
      const nowMs = clock.nowMs()
      const id = `batch_${ids.uuid()}`
      const scope = idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'batches', key: idempotencyKey }
      const digest = digestOf(request)
      const made = await inTransaction(db, async (transaction) => {
        const before = scope === null ? null : await findIdempotent(transaction, scope, digest)
        if (before !== null && (await findBatch(transaction, principal, before)) !== null) return before
        const open = await countOpen(transaction, principal.entity)
        if (open >= MOST_OPEN) throw tooMany(open)
        await insertBatch(transaction, {
          id,
          entity: principal.entity,
          project: principal.project,
          keyId: principal.keyId,
          usageProject: principal.usageProject,
          endpoint: request.endpoint,
          inputFileId: file.id,
          inputSha256: file.sha256,
          metadata: request.metadata ?? null,
          createdAtMs: nowMs,
          expiresAtMs: nowMs + LIFE_MS,
        })
        if (scope !== null) await rememberIdempotent(transaction, scope, digest, id)
        return id
      })
      waker.wake()
      return toWireBatch(await requireBatch(principal, made))
    },
    list: async (principal, query) => {
      const options = { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT }
      const page = await listBatches(db, principal, options)
      return toList(page.items.map(toWireBatch), page.hasMore)
    },
    get: async (principal, id) => toWireBatch(await requireBatch(principal, id)),
    cancel: async (principal, id) => {
      const { id: known } = await requireBatch(principal, id)
      await askToCancel(db, known, clock.nowMs())
      const batch = await requireBatch(principal, known)
      if (batch.status !== 'cancelling' && batch.status !== 'cancelled') {
        throw new ConflictError('batch_ended', `Cannot cancel a batch with status '${batch.status}'.`)
      }
      waker.cancel(known)
      return toWireBatch(batch)
    },
  }
}

function checkRequest(request: CreateBatchRequest): void {
  if (request.output_expires_after != null) {
    throw new InvalidRequestError(
      'unsupported_parameter',
      'output_expires_after is not supported: files stay until they are deleted',
      { param: 'output_expires_after', hint: 'leave it out and delete the files when they are no longer needed' },
    )
  }
  if (Object.keys(request.metadata ?? {}).length > MAX_METADATA) {
    throw new InvalidRequestError('invalid_value', `metadata must have at most ${MAX_METADATA} keys`, {
      param: 'metadata',
    })
  }
}

function invalidFile(problem: string): InvalidRequestError {
  return new InvalidRequestError('invalid_input_file', `input_file_id must be a file of requests: ${problem}`, {
    param: 'input_file_id',
    hint: 'upload a JSON Lines file with purpose "batch"',
  })
}

function tooMany(open: number): AppError {
  return new AppError(
    'rate_limited',
    'too_many_batches',
    `${open} batches have not ended; an entity may have ${MOST_OPEN}`,
    {
      hint: 'wait for one, or cancel one',
      details: { retry_after_seconds: 60 },
    },
  )
}

const toSeconds = (timeMs: number): number => Math.floor(timeMs / 1000)

function toWireBatch(batch: BatchRecord): Batch {
  const endedAs = (status: BatchRecord['status']): number | null =>
    batch.status === status && batch.endedAtMs !== null ? toSeconds(batch.endedAtMs) : null
  const at = (timeMs: number | null): number | null => (timeMs === null ? null : toSeconds(timeMs))
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    errors: batch.errors.length === 0 ? null : { object: 'list', data: [...batch.errors] },
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status: batch.status,
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: toSeconds(batch.createdAtMs),
    in_progress_at: at(batch.inProgressAtMs),
    expires_at: toSeconds(batch.expiresAtMs),
    finalizing_at: at(batch.finalizingAtMs),
    completed_at: endedAs('completed'),
    failed_at: endedAs('failed'),
    expired_at: endedAs('expired'),
    cancelling_at: at(batch.cancellingAtMs),
    cancelled_at: endedAs('cancelled'),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    usage: batch.usage ?? NO_USAGE,
    metadata: batch.metadata,
  }
}
