/**
 * The files of a base model, as a worker on another machine fetches them: which they are, their digests, their bytes. What is not read
 * by anything is left out, pickles above all.
 *
 * A file is hashed when somebody asks for the first time, and again when its size or time of change has changed.
 */
import { createHash } from 'node:crypto'
import { createReadStream, type ReadStream } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { NotFoundError } from '#base/errors/errors.js'
import type { BaseModelFiles } from '#contract/processes/worker.js'

/** A base model and where it lies: a folder, or a GGUF file. */
interface Located {
  readonly name: string
  readonly sourcePath: string
}

export interface BaseModelFilesBook {
  /** @throws {NotFoundError} `base_model_not_found` if its folder is gone */
  describe(model: Located): Promise<BaseModelFiles>
  /**
   * Bytes of one of them; `sha256` and `sizeBytes` are the whole file's.
   *
   * @param from of the first byte that is asked for; not beyond the last, or all of them come
   * @throws {NotFoundError} `file_not_found` for one that `describe` does not name
   */
  open(model: Located, name: string, from: number): Promise<OpenedModelFile>
}

export interface OpenedModelFile {
  readonly stream: ReadStream
  readonly from: number
  readonly sha256: string
  readonly sizeBytes: number
}

export function createBaseModelFilesBook(): BaseModelFilesBook {
  const known = new Map<string, { readonly state: string; readonly sha256: Promise<string> }>()

  async function digestOf(path: string): Promise<{ readonly sha256: string; readonly sizeBytes: number }> {
    const { size, mtimeMs } = await stat(path)
    const state = `${size} ${mtimeMs}`
    const before = known.get(path)
    const entry = before?.state === state ? before : { state, sha256: hashFile(path) }
    known.set(path, entry)
    // a file that could not be read may be mended
    entry.sha256.catch(() => known.get(path) === entry && known.delete(path))
    return { sha256: await entry.sha256, sizeBytes: size }
  }

  async function describe(model: Located): Promise<BaseModelFiles> {
    const { layout, paths } = await locate(model)
    const files: BaseModelFiles['files'] = []
    for (const [name, path] of paths) {
      const { sha256, sizeBytes } = await digestOf(path)
      files.push({ name, sha256, size_bytes: sizeBytes })
    }
    const digest = createHash('sha256').update(JSON.stringify([layout, files.map((file) => [file.name, file.sha256])]))
    return { digest: digest.digest('hex'), layout, files }
  }

  return {
    describe,
    open: async (model, name, asked) => {
      const path = (await locate(model)).paths.get(name)
      if (path === undefined) {
        throw new NotFoundError('file_not_found', `base model "${model.name}" has no file "${name.slice(0, 100)}"`)
      }
      const facts = await digestOf(path)
      const from = asked < facts.sizeBytes ? asked : 0
      return { stream: (await open(path, 'r')).createReadStream({ start: from }), from, ...facts }
    },
  }
}

/** Names and paths of what is read of a model, in order of the names. */
async function locate({
  name,
  sourcePath,
}: Located): Promise<{ layout: BaseModelFiles['layout']; paths: Map<string, string> }> {
  const facts = await stat(sourcePath).catch((cause: unknown) => {
    throw new NotFoundError('base_model_not_found', `the files of base model "${name}" are gone`, { cause })
  })
  if (!facts.isDirectory()) return { layout: 'file', paths: new Map([[fileName(sourcePath), sourcePath]]) }
  const { isModelFile, TOOL_TEMPLATE } = await import('./hub-files.js')
  const names = (await readdir(sourcePath)).filter(isModelFile)
  const hasToolTemplate = await stat(join(sourcePath, TOOL_TEMPLATE)).then(
    () => true,
    () => false,
  )
  const all = [...names, ...(hasToolTemplate ? [TOOL_TEMPLATE] : [])].toSorted()
  return { layout: 'folder', paths: new Map(all.map((each) => [each, join(sourcePath, each)])) }
}

/** Its own name where that is plain: what a person called the file matters to nobody. */
function fileName(path: string): string {
  const name = basename(path)
  return /^[\w-][\w.-]{0,200}$/.test(name) ? name : 'model.gguf'
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(part as Buffer)
  return hash.digest('hex')
}
