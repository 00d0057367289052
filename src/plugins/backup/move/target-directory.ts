/**
 * The data directory that a move fills: a new one, which a marker keeps from servers until all is there, or the
 * source's own, if its rows or its blobs stay where they are.
 */
import { copyFile, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ConflictError } from '#base/errors/errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { createFolders } from '#base/util/create-folders.js'
import { MOVE_MARKER, openDataDir, unwritable } from '#service/storage/data-dir.js'
import type { MovePlaces } from './places.js'

export interface TargetDirectory {
  readonly path: string
  /** An earlier move from this source did not end. */
  readonly isBegun: boolean
  /** All but rows is there: its key, and nobody else's rights. What is behind the rows is then one step, which may be taken again. */
  prepare(source: string | null): Promise<void>
  /** It is whole: servers may start on it. */
  finish(): Promise<void>
  release(): void
}

/** What a disk's own folder may hold. */
const HARMLESS = new Set(['lost+found'])

/** Nothing is written there, or what is there is the source's own. */
function isOther({ from, to, movesRows, movesBlobs }: MovePlaces): boolean {
  const isFilled = (movesRows && to.database === null) || (movesBlobs && to.blobStore === null)
  return isFilled && to.directory !== from.directory
}

/**
 * Changes nothing.
 *
 * @returns whether a move from this source was begun there
 * @throws {ConflictError} `data_dir_not_empty`
 */
export async function checkTargetDirectory(places: MovePlaces, sourceId: string): Promise<boolean> {
  if (!isOther(places)) return false
  const root = places.to.directory ?? ''
  let names: readonly string[]
  try {
    names = (await readdir(root)).filter((name) => !HARMLESS.has(name))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw unwritable(root, cause)
  }
  if (names.length === 0) return false
  if (names.includes(MOVE_MARKER)) {
    // one that was killed before its first line was written has nothing else in it
    const owner = (await readFile(join(root, MOVE_MARKER), 'utf8')).trim()
    if (owner === sourceId || names.length === 1) return owner === sourceId
    throw new ConflictError('data_dir_not_empty', `"${root}" holds a move of another source that did not end`, {
      hint: 'go on with that one, or name a new directory in --data-dir',
    })
  }
  throw new ConflictError('data_dir_not_empty', `"${root}" is not empty`, {
    hint: 'name a new directory in --data-dir',
  })
}

/**
 * Locks and marks it. Null where nothing is written into a directory.
 *
 * @throws as `checkTargetDirectory`, `openDataDir`
 */
export async function claimTargetDirectory(places: MovePlaces, sourceId: string): Promise<TargetDirectory | null> {
  const { directory } = places.to
  if (directory === null) return null
  if (!isOther(places)) {
    // the source's lock holds it
    if (places.movesBlobs && places.to.blobStore === null) {
      await createFolders(join(directory, 'blobs', 'sha256'), 0o700).catch((cause: unknown) => {
        throw unwritable(directory, cause)
      })
    }
    const nothing = async (): Promise<void> => undefined
    return { path: directory, isBegun: false, prepare: nothing, finish: nothing, release: () => undefined }
  }
  const isBegun = await checkTargetDirectory(places, sourceId)
  try {
    await createFolders(directory, 0o700)
    const marker = await open(join(directory, MOVE_MARKER), 'w', 0o600)
    await marker.writeFile(`${sourceId}\n`)
    await marker.sync()
    await marker.close()
  } catch (cause) {
    throw unwritable(directory, cause)
  }
  const dataDir = await openDataDir(directory, { isRestoring: true })
  return {
    path: directory,
    isBegun,
    prepare: async (source) => {
      if (source !== null) await copyKey(source, dataDir.apiKeyPath)
      await dataDir.makePrivate()
      await syncFolder(directory)
    },
    finish: async () => {
      await rm(join(directory, MOVE_MARKER))
      await syncFolder(directory)
    },
    release: () => dataDir.unlock(),
  }
}

async function copyKey(source: string, target: string): Promise<void> {
  try {
    await copyFile(join(source, 'api-key'), target)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  }
}
