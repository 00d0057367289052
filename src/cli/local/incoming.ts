/**
 * Puts a model of this machine where a server of this machine takes it in: `base-models/incoming-…` of its data directory, as a
 * link or as a copy. Who may write there may also have the server read it; nobody else can name files to it.
 */
import { cp, mkdir, realpath, stat, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { systemIds } from '#base/util/ids.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import { removeTree } from '#base/util/move-file.js'
import type { Paths } from '../config/paths.js'
import { readServerRecord } from '../config/server-record.js'
import { UsageError } from '../terminal/errors.js'

export interface Incoming {
  /** Plain name, for the server. */
  readonly path: string
  /** Where that is: how messages of the server call it. */
  readonly target: string
  /** Deletes it again, for when the server refuses it. */
  remove(): Promise<void>
}

/**
 * @param source folder or file
 * @throws {UsageError} `server_elsewhere` when the server's data directory is not on this machine
 */
export async function placeIncoming(
  source: string,
  { server, paths, isCopied }: { readonly server: string; readonly paths: Paths; readonly isCopied: boolean },
): Promise<Incoming> {
  const record = isLoopbackUrl(server) ? await readServerRecord(paths, server) : null
  const folder = record === null ? null : join(dirname(record.apiKeyFile), 'base-models')
  if (folder === null || (await stat(folder).catch(() => null)) === null) {
    throw new UsageError(
      'server_elsewhere',
      `${source} is here, but the data directory of ${server} is not known here`,
      {
        hint: 'add it on the machine of the server and as its user, or give the name of a hub repository',
      },
    )
  }
  const path = `incoming-${systemIds.uuid()}`
  const target = join(folder, path)
  const full = await realpath(resolve(source))
  if (isCopied) await copy(full, target)
  else await link(full, target)
  return { path, target, remove: () => removeTree(target) }
}

async function copy(source: string, target: string): Promise<void> {
  const isFolder = (await stat(source)).isDirectory()
  if (isFolder) await mkdir(target, { mode: 0o700 })
  await cp(source, target, { recursive: true, dereference: true })
}

/** Windows lets everybody link folders (as junctions) and few people link files: those are copied. */
async function link(source: string, target: string): Promise<void> {
  const isFolder = (await stat(source)).isDirectory()
  try {
    await symlink(source, target, isFolder ? 'junction' : 'file')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) throw error
    await copy(source, target)
  }
}
