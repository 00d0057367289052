/**
 * A base model's files from the server into a folder of this machine, once: who has them does not ask again. A file counts when its digest
 * is right, a model when all its files do: they are fetched beside it and renamed together.
 */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { AppError, isFullDisk } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { BaseModelFiles, WorkerFolders } from '#contract/processes/worker.js'

/** Whoever has the files. */
export interface BaseModelSource {
  getBaseModelFiles(): Promise<BaseModelFiles>
  /** Bytes of one of them, as they come. */
  openBaseModelFile(name: string): Promise<AsyncIterable<Uint8Array>>
}

export interface FetchOptions {
  readonly client: BaseModelSource
  /** Where fetched base models are kept. */
  readonly directory: string
  /** Called for every part that came; what it throws ends the download. */
  readonly onPart: () => void
}

/**
 * Where a base model lies on this machine: the folder that was given, or what is fetched.
 *
 * @throws what `fetchBaseModel` throws
 */
export async function placeOfBaseModel(
  { base_model: given, fetched }: WorkerFolders,
  options: Omit<FetchOptions, 'directory'>,
): Promise<string> {
  if (given !== null) return given
  if (fetched === null) throw new Error('the worker was given neither a base model nor a folder to fetch one into')
  return fetchBaseModel({ ...options, directory: fetched })
}

/** A connection that breaks on the way is not the end: whoever carries gigabytes meets one. */
const MAX_TRIES = 5

/**
 * Makes sure the job's base model lies in `directory`.
 *
 * @returns its folder, or its GGUF file
 * @throws {AppError} `base_model_damaged` if bytes come with another digest, however often they are asked for
 */
export async function fetchBaseModel({ client, directory, onPart }: FetchOptions): Promise<string> {
  const listing = await client.getBaseModelFiles()
  const target = join(directory, listing.digest)
  if (!(await exists(target))) {
    const incoming = join(directory, `${listing.digest}.${systemIds.uuid()}.incoming`)
    try {
      for (const file of listing.files) await fetchFile(file, join(incoming, file.name), { client, onPart })
      await rename(incoming, target).catch(async (error: unknown) => {
        // another worker of this machine was first
        if (!(await exists(target))) throw error
      })
    } finally {
      await rm(incoming, { recursive: true, force: true })
    }
  }
  const [first] = listing.files
  return listing.layout === 'file' && first !== undefined ? join(target, first.name) : target
}

async function fetchFile(
  file: BaseModelFiles['files'][number],
  path: string,
  { client, onPart }: Pick<FetchOptions, 'client' | 'onPart'>,
): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  for (let attempt = 1; ; attempt += 1) {
    const hash = createHash('sha256')
    try {
      const body = await client.openBaseModelFile(file.name)
      await pipeline(
        body,
        async function* count(parts: AsyncIterable<Uint8Array>) {
          for await (const part of parts) {
            onPart()
            hash.update(part)
            yield part
          }
        },
        createWriteStream(path),
      )
    } catch (error) {
      // what has a code of ours was decided; everything else is a connection that broke
      if (error instanceof AppError || isFullDisk(error) || attempt === MAX_TRIES) throw error
      continue
    }
    if (hash.digest('hex') === file.sha256) return
    if (attempt === MAX_TRIES) {
      throw new AppError(
        'internal',
        'base_model_damaged',
        `file "${file.name}" of the base model does not come with its digest from the server`,
        { hint: 'was it changed while it was fetched? Submit the job again' },
      )
    }
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
