/**
 * Records of running local servers, so that the command line finds the key of a server on this machine by its address.
 *
 * `serve` writes one file per address when it is ready and removes it when it stops; a stale one does no harm, it only
 * names a key file. Keys themselves are never copied here.
 */

import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createFolders } from '#base/util/create-folders.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import { moveFile } from '#base/util/move-file.js'
import type { Paths } from './paths.js'

export interface ServerRecord {
  /** `http://127.0.0.1:8642` */
  readonly url: string
  readonly apiKeyFile: string
  readonly pid: number
}

/** Writes the record of a server that is ready; returns the function that removes it again. */
export async function writeServerRecord(paths: Paths, record: ServerRecord): Promise<() => Promise<void>> {
  const path = recordPath(paths, record.url)
  await createFolders(join(paths.stateDir, 'servers'), 0o700)
  const draft = `${path}.${record.pid}.partial`
  await writeFile(draft, `${JSON.stringify(record)}\n`, { mode: 0o600 })
  await moveFile(draft, path)
  return async function removeServerRecord(): Promise<void> {
    const current = await readServerRecord(paths, record.url)
    if (current?.pid === record.pid) await rm(path, { force: true })
  }
}

/** The record of the server at `url`, or null if none was written or it is malformed. */
export async function readServerRecord(paths: Paths, url: string): Promise<ServerRecord | null> {
  return await readRecord(recordPath(paths, url))
}

async function readRecord(path: string): Promise<ServerRecord | null> {
  try {
    const document: unknown = JSON.parse(await readFile(path, 'utf8'))
    return isServerRecord(document) ? document : null
  } catch {
    return null
  }
}

/** The record of a server whose key lies in a data directory; null where none says so. */
export async function findServerRecord(paths: Paths, dataDir: string): Promise<ServerRecord | null> {
  const folder = join(paths.stateDir, 'servers')
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.endsWith('.json')) continue
    const record = await readRecord(join(folder, name))
    if (record !== null && dirname(resolve(record.apiKeyFile)) === resolve(dataDir)) return record
  }
  return null
}

/** All loopback spellings of one port share a record. */
function recordPath(paths: Paths, url: string): string {
  const { hostname, port, protocol } = new URL(url)
  // A server on every address is found by its loopback one.
  const isHere = isLoopbackUrl(url) || hostname === '0.0.0.0' || hostname === '[::]'
  const name = isHere ? 'loopback' : hostname.replace(/[^a-zA-Z0-9.-]/g, '_')
  return join(paths.stateDir, 'servers', `${name}-${port === '' ? (protocol === 'https:' ? '443' : '80') : port}.json`)
}

function isServerRecord(value: unknown): value is ServerRecord {
  return (
    typeof value === 'object' &&
    value !== null &&
    'url' in value &&
    typeof value.url === 'string' &&
    'apiKeyFile' in value &&
    typeof value.apiKeyFile === 'string' &&
    'pid' in value &&
    typeof value.pid === 'number'
  )
}
