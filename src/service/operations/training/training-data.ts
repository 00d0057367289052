/**
 * `training_data_url` → an immutable blob. The server opens no network connection and reads no file outside one folder.
 *
 * - `file-…`: a file uploaded by `POST /v1/files`;
 * - `wandb-artifact:///entity/project/name:version`: a file registered under that name;
 * - `file:///…`: a file below the configured root, copied when the job is created; links that lead out are refused;
 * - `http:`, `https:` and everything else: refused.
 */
import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InvalidRequestError } from '#base/errors.js'
import { findFile } from '#service/storage/files.js'
import type { Principal, ServiceContext } from '../context.js'
import { MAX_UPLOAD_BYTES, normalizeArtifact } from '../files.js'

/**
 * @returns the digest of the blob that holds the data
 * @throws {InvalidRequestError} `training_data_not_found` or `training_data_refused`
 */
export async function resolveTrainingData(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'trainingDataRoot'>,
  principal: Principal,
  url: string,
): Promise<string> {
  if (url.startsWith('file-')) {
    const file = await findFile(context.db, principal, { id: url })
    if (file === null) throw notFound(`no file "${url.slice(0, 100)}" was uploaded`, 'upload it with POST /v1/files')
    return file.sha256
  }
  if (url.startsWith('wandb-artifact:')) {
    const artifact = normalizeArtifact(url)
    const file = await findFile(context.db, principal, { artifact })
    if (file === null) {
      throw notFound(
        `artifact "${artifact}" is not registered here`,
        'upload its file with POST /v1/files and the form field artifact, or pass the id of an uploaded file',
      )
    }
    return file.sha256
  }
  if (url.startsWith('file:')) return copyLocalFile(context, url)
  throw refused(
    'training_data_url must be a file id, a file: address or a wandb-artifact: address; the server opens no connections',
    'download the data and upload it with POST /v1/files',
  )
}

async function copyLocalFile(
  context: Pick<ServiceContext, 'blobs' | 'trainingDataRoot'>,
  url: string,
): Promise<string> {
  const hint = 'upload the file with POST /v1/files, or put it below the training data folder of the server'
  if (context.trainingDataRoot === null) {
    throw refused('training_data_url must not be a file: address: this server has no training data folder', hint)
  }
  const root = await realpath(context.trainingDataRoot).catch(() => null)
  const path = await realpath(toPath(url)).catch(() => null)
  // the same answer whether a file is missing or outside the root: addresses must not probe the file system
  const isInside = root !== null && path?.startsWith(root.endsWith(sep) ? root : root + sep) === true
  if (path === null || !isInside || !(await stat(path)).isFile()) {
    throw refused('training_data_url must name a file below the training data folder of the server', hint)
  }
  return (await context.blobs.put(createReadStream(path), { maxBytes: MAX_UPLOAD_BYTES })).sha256
}

function toPath(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    throw refused('training_data_url must be a valid file: address without a host', 'write file:///path/to/file.jsonl')
  }
}

function notFound(message: string, hint: string): InvalidRequestError {
  return new InvalidRequestError('training_data_not_found', message, { hint })
}

function refused(message: string, hint: string): InvalidRequestError {
  return new InvalidRequestError('training_data_refused', message, { hint })
}
