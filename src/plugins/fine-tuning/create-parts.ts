/**
 * What creating a fine-tuning job of any method begins with: is it a repeated one, are its files there, and what is its model
 * called.
 */
import { randomBytes } from 'node:crypto'
import { InvalidRequestError } from '#base/errors/errors.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import type { CreateModelRequest } from '#contract/wire/models.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { Database } from '#service/storage/database.js'
import { type FileRecord, findFile } from '#service/storage/files.js'
import { findIdempotent, type IdempotencyScope } from '#service/storage/idempotency.js'
import type { CreateFineTuningJobRequest } from './wire.js'

/** Project of models made for keys that belong to none. */
const DEFAULT_PROJECT = 'fine-tuning'
/** A create the client says it repeats is the same one within this time. */
const RETRY_WINDOW_MS = 30 * 60_000

/** How a request may be known again. */
interface Repeatable {
  readonly scope: IdempotencyScope | null
  readonly requestDigest: string
  readonly isRetry: boolean
}

/**
 * What this request made before: by its key, or by its words when the client says that it sends them again.
 *
 * @throws {ConflictError} `idempotency_key_reused`
 */
export async function findRepeated<R>(
  db: Database,
  principal: Principal,
  { scope, requestDigest, isRetry }: Repeatable,
  {
    byId,
    byDigest,
  }: {
    byId(db: Database, principal: Principal, id: string): Promise<R | null>
    byDigest(
      db: Database,
      principal: Principal,
      repeated: { readonly requestDigest: string; readonly withinMs: number },
    ): Promise<R | null>
  },
): Promise<R | null> {
  if (scope !== null) {
    const id = await findIdempotent(db, scope, requestDigest)
    return id === null ? null : byId(db, principal, id)
  }
  return isRetry ? byDigest(db, principal, { requestDigest, withinMs: RETRY_WINDOW_MS }) : null
}

/** A file that a request names. @throws {InvalidRequestError} `file_not_found`, `invalid_file_purpose` */
export async function requireRows(
  { db }: Pick<ServiceContext, 'db'>,
  principal: Principal,
  { field, id }: { readonly field: 'training_file' | 'validation_file'; readonly id: string },
): Promise<FileRecord> {
  const file = await findFile(db, principal, { id })
  if (file === null) {
    throw new InvalidRequestError('file_not_found', `${field} "${id.slice(0, 100)}" was not found`, {
      param: field,
      hint: 'upload it with POST /v1/files and purpose fine-tune',
    })
  }
  if (file.purpose !== 'fine-tune') {
    throw new InvalidRequestError(
      'invalid_file_purpose',
      `${field} must have the purpose "fine-tune", "${file.filename.slice(0, 100)}" has "${file.purpose}"`,
      { param: field },
    )
  }
  return file
}

/** The model that a job of a base model makes. */
export function modelOf(
  principal: Principal,
  { suffix }: Pick<CreateFineTuningJobRequest, 'suffix'>,
  baseModel: string,
): CreateModelRequest {
  const part = (suffix ?? baseModel.split('/').at(-1) ?? 'model').replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')
  return {
    project: principal.project ?? principal.usageProject ?? DEFAULT_PROJECT,
    name: `${part}-${randomBytes(4).toString('hex')}`,
    base_model: baseModel,
    return_existing: false,
  }
}

/** @throws {InvalidRequestError} `unsupported_parameter` for what would have no effect */
export function assertSupported(request: CreateFineTuningJobRequest): void {
  const unsupported = (param: string, hint: string) =>
    new InvalidRequestError('unsupported_parameter', `${param} is not supported here`, { param, hint })
  if ((request.integrations ?? []).length > 0) {
    throw unsupported('integrations', 'metrics are events of the job: GET /v1/fine_tuning/jobs/{id}/events')
  }
  if (Object.keys(request.metadata ?? {}).length > MAX_METADATA) {
    throw new InvalidRequestError('invalid_value', `metadata must have at most ${MAX_METADATA} keys`, {
      param: 'metadata',
    })
  }
}
