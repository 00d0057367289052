/**
 * `training_data_url` and `validation_data_url` → an immutable blob. Connections go to public addresses alone, and no file
 * outside one folder is read.
 *
 * - `file-…`: a file uploaded by `POST /v1/files`;
 * - `wandb-artifact:///entity/project/name:version`: a file registered under that name, or the rows in an artifact that a plugin
 *   knows;
 * - `file:///…`: a file below the configured root, copied when the job is created; links that lead out are refused;
 * - `data:…`: the rows themselves, percent-encoded or base64 (RFC 2397);
 * - `https:…`: fetched once, now, from a public address (`remote-data.ts`); `http:` only from hosts the administrator named;
 * - everything else: refused.
 *
 * Data that begins like a gzip file is stored decompressed, at most `MAX_UPLOAD_BYTES` of it.
 */
import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { findFile } from '#service/storage/files.js'
import type { Principal, ServiceContext } from '../context.js'
import { MAX_UPLOAD_BYTES, normalizeArtifact } from '../files.js'
import { gunzip, isGzip } from './row-stream.js'

/** An address and the field of the request it stands in. */
export interface DataAddress {
  readonly field: 'training_data_url' | 'validation_data_url'
  readonly url: string
}

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'trainingDataRoot' | 'remoteData' | 'artifactRows'>

/**
 * @returns the digest of the blob that holds the data, decompressed
 * @throws {InvalidRequestError} `training_data_not_found`, `training_data_refused` or `invalid_gzip`
 */
export async function resolveTrainingData(
  context: Context,
  principal: Principal,
  address: DataAddress,
): Promise<string> {
  return decompressed(context, await findData(context, principal, address), address)
}

async function findData(context: Context, principal: Principal, { field, url }: DataAddress): Promise<string> {
  if (url.startsWith('file-')) {
    const file = await findFile(context.db, principal, { id: url })
    if (file === null) {
      throw notFound(field, `no file "${url.slice(0, 100)}" was uploaded`, 'upload it with POST /v1/files')
    }
    return file.sha256
  }
  if (url.startsWith('wandb-artifact:')) {
    const artifact = artifactOf({ field, url })
    const file = await findFile(context.db, principal, { artifact })
    const uploaded = file?.sha256 ?? (await context.artifactRows(principal, artifact))
    if (uploaded === null) {
      throw notFound(
        field,
        `artifact "${artifact}" is not registered here`,
        'upload its file with POST /v1/files and the form field artifact, or pass the id of an uploaded file',
      )
    }
    return uploaded
  }
  if (url.startsWith('file:')) return copyLocalFile(context, { field, url })
  if (url.startsWith('data:')) return (await context.blobs.put([dataOf({ field, url })])).sha256
  if (/^https?:/i.test(url))
    return (await context.blobs.put(context.remoteData.open(principal.keyId, { field, url }))).sha256
  throw refused(
    field,
    `must be a file id, an https:, data:, file: or wandb-artifact: address, got "${url.slice(0, 100)}"`,
    'upload the data with POST /v1/files',
  )
}

function artifactOf({ field, url }: DataAddress): string {
  try {
    return normalizeArtifact(url)
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause
    throw refused(
      field,
      `must be wandb-artifact:///entity/project/name:version, got "${url.slice(0, 200)}"`,
      'the version is v0, v1, … or an alias such as latest',
    )
  }
}

/** The bytes of a `data:` address. */
function dataOf({ field, url }: DataAddress): Buffer {
  const comma = url.indexOf(',')
  const hint = 'write data:application/jsonl;base64,… or data:application/jsonl,… with the rows percent-encoded'
  if (comma === -1) throw refused(field, 'is a data: address without a comma before its data', hint)
  const payload = url.slice(comma + 1)
  if (/;base64$/i.test(url.slice(0, comma))) {
    if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(payload)) throw refused(field, 'is not valid base64', hint)
    return Buffer.from(payload, 'base64')
  }
  try {
    return Buffer.from(decodeURIComponent(payload), 'utf8')
  } catch {
    throw refused(field, 'is not percent-encoded UTF-8', hint)
  }
}

/** Stores the content of a gzip file; other data stays as it is. */
async function decompressed({ blobs }: Context, sha256: string, { field }: DataAddress): Promise<string> {
  if (!(await isGzip(await blobs.openRead(sha256)))) return sha256
  const content = gunzip(await blobs.openRead(sha256), field)
  return (await blobs.put(content, { maxBytes: MAX_UPLOAD_BYTES })).sha256
}

async function copyLocalFile(context: Context, { field, url }: DataAddress): Promise<string> {
  const hint = 'upload the file with POST /v1/files, or put it below the training data folder of the server'
  if (context.trainingDataRoot === null) {
    throw refused(field, 'must not be a file: address: this server has no training data folder', hint)
  }
  const root = await realpath(context.trainingDataRoot).catch(() => null)
  const path = await realpath(toPath({ field, url })).catch(() => null)
  // the same answer whether a file is missing or outside the root: addresses must not probe the file system
  const isInside = root !== null && path?.startsWith(root.endsWith(sep) ? root : root + sep) === true
  if (path === null || !isInside || !(await stat(path)).isFile()) {
    throw refused(field, 'must name a file below the training data folder of the server', hint)
  }
  return (await context.blobs.put(createReadStream(path), { maxBytes: MAX_UPLOAD_BYTES })).sha256
}

function toPath({ field, url }: DataAddress): string {
  try {
    return fileURLToPath(url)
  } catch {
    throw refused(field, 'must be a valid file: address without a host', 'write file:///path/to/file.jsonl')
  }
}

/** Without `param`, which would make it a 422: the hosted service answers 400 here. */
function notFound(field: string, message: string, hint: string): InvalidRequestError {
  return new InvalidRequestError('training_data_not_found', `${field}: ${message}`, { hint })
}

function refused(field: string, problem: string, hint: string): InvalidRequestError {
  return new InvalidRequestError('training_data_refused', `${field} ${problem}`, { hint })
}
