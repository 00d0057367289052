/**
 * Files of checkpoints that a worker on another machine has made, by digest: the next job of the model begins from them, and would fetch what
 * was written here minutes before. A few of them, the newest; what is damaged or gone is fetched, so nothing depends on them.
 */
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { chunksOf, collectContent, type FileContent, sha256Of } from '#base/util/file-content.js'

/** Their folder, beside that of fetched base models. */
export const OWN_FILES = 'own-files'

export interface OwnFiles {
  /** Keeps a file, and lets the oldest go that are too many; a disk that takes none costs nothing but a fetch. */
  keep(sha256: string, content: FileContent): Promise<void>
  /** The file, if it is there and has its digest. */
  find(sha256: string): Promise<FileContent | null>
}

/** Of four models the newest checkpoint: three files each, and what lies there for an attempt that repeats. */
const MOST_FILES = 16
const WRITE_BYTES = 1024 ** 2

export function createOwnFiles(folder: string, mostFiles: number = MOST_FILES): OwnFiles {
  async function prune(): Promise<void> {
    const files: { readonly path: string; readonly changedMs: number }[] = []
    for (const name of await readdir(folder)) {
      const path = join(folder, name)
      // another worker of the machine may have taken it away
      const facts = await stat(path).catch(() => null)
      if (facts !== null) files.push({ path, changedMs: facts.mtimeMs })
    }
    files.sort((a, b) => b.changedMs - a.changedMs)
    for (const { path } of files.slice(mostFiles)) await rm(path, { force: true })
  }

  return {
    keep: async (sha256, content) => {
      const partial = join(folder, `${sha256}.${process.pid}.part`)
      try {
        await mkdir(folder, { recursive: true })
        await writeFile(partial, chunksOf(content, WRITE_BYTES))
        await rename(partial, join(folder, sha256))
        await prune()
      } catch {
        await rm(partial, { force: true }).catch(() => undefined)
      }
    },
    find: async (sha256) => {
      const path = join(folder, sha256)
      const content = await collectContent(createReadStream(path)).catch(() => null)
      if (content === null) return null
      if (sha256Of(content) === sha256) return content
      await rm(path, { force: true })
      return null
    },
  }
}
