/**
 * Base models that were added while a server ran, as they lie in the data directory: `base-models/<slug>.json` says what a model is and
 * where it comes from, `base-models/<slug>` is its folder, its file, or a link to one.
 *
 * A description is written by rename; what has none, or half of its files, is never served.
 */
import { createHash } from 'node:crypto'
import { lstat, mkdir, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { moveFile, removeTree } from '#base/util/move-file.js'
import type { ModelFacts } from '#service/processes/model-inspector.js'
import type { HubFile } from './hub-files.js'

/** Where an added model comes from. */
export type ShelfSource =
  | { readonly type: 'local' }
  | {
      readonly type: 'hub'
      readonly repository: string
      /** As asked for: a branch, a tag or a commit. */
      readonly revision: string
      readonly commit: string
      /** The GGUF file asked for; null for what the repository has. */
      readonly file: string | null
      readonly files: readonly HubFile[]
    }

/** One added model. */
export interface ShelfEntry {
  readonly name: string
  readonly addedAtMs: number
  readonly source: ShelfSource
  /** Null until every byte is there and the model was found usable. */
  readonly facts: ModelFacts | null
}

export interface Shelf {
  /** `base-models` of the data directory. */
  readonly directory: string
  /** Folder, file or link of a model. */
  pathOf(name: string): string
  /** What is loaded: the folder, or the one GGUF file in it. */
  sourcePathOf(entry: ShelfEntry): string
  /** All entries, oldest first. Unreadable descriptions are left out. */
  read(): Promise<readonly ShelfEntry[]>
  write(entry: ShelfEntry): Promise<void>
  /** Forgets a model and deletes its bytes; of a link only the link. */
  remove(name: string): Promise<void>
}

const VERSION = 1

/** The name that the files of a base model have: readable, and no two names share one. */
export function slugOf(name: string): string {
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${name.replaceAll('/', '--').slice(0, 100)}-${digest}`
}

export function createShelf(directory: string): Shelf {
  const pathOf = (name: string): string => join(directory, slugOf(name))
  const descriptionOf = (name: string): string => `${pathOf(name)}.json`
  return {
    directory,
    pathOf,
    sourcePathOf: ({ name, source }) => {
      const [file, ...others] = source.type === 'hub' ? source.files : []
      const isOneFile = file !== undefined && others.length === 0
      return isOneFile ? join(pathOf(name), file.name) : pathOf(name)
    },
    async read() {
      const entries: ShelfEntry[] = []
      for (const name of await readdir(directory)) {
        if (!name.endsWith('.json')) continue
        const entry = parseEntry(await readFile(join(directory, name), 'utf8').catch(() => ''))
        if (entry !== null && `${slugOf(entry.name)}.json` === name) entries.push(entry)
      }
      return entries.sort((a, b) => a.addedAtMs - b.addedAtMs)
    },
    async write(entry) {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const path = descriptionOf(entry.name)
      await writeFile(`${path}.partial`, `${JSON.stringify({ version: VERSION, ...entry })}\n`, { mode: 0o600 })
      await moveFile(`${path}.partial`, path)
    },
    async remove(name) {
      await rm(descriptionOf(name), { force: true })
      const path = pathOf(name)
      const facts = await lstat(path).catch(() => null)
      if (facts?.isSymbolicLink() === true) await unlink(path)
      else if (facts !== null) await removeTree(path)
    },
  }
}

/** Our own file, but in a folder that people look into: a strange one is left alone. */
function parseEntry(text: string): ShelfEntry | null {
  try {
    const { version, ...entry } = JSON.parse(text) as ShelfEntry & { readonly version: number }
    const { source } = entry
    const isWhole = source.type === 'local' || (source.type === 'hub' && Array.isArray(source.files))
    return version === VERSION && typeof entry.name === 'string' && isWhole ? entry : null
  } catch {
    return null
  }
}
