/**
 * A base model's files from the server into a folder of this machine, once: who has them does not ask again. A file counts when its digest
 * is right, a model when all its files do: they are fetched beside it and renamed together.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { AppError, isFullDisk } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { ResumedBody } from '#base/util/resumed-body.js'
import type { BaseModelFiles, WorkerFolders } from '#contract/processes/worker.js'

/** Whoever has the files. */
export interface BaseModelSource {
  getBaseModelFiles(): Promise<BaseModelFiles>
  /** Bytes of one of them as they come, behind the first `from` where it can give those. */
  openBaseModelFile(name: string, from: number): Promise<ResumedBody>
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

/** Connections in a row that brought nothing: one that breaks is not the end, whoever carries gigabytes meets many. */
const MAX_FRUITLESS = 5
/** How often a file comes whole with another digest. */
const MAX_DAMAGED = 5

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
  let fruitless = 0
  for (let damaged = 0; damaged < MAX_DAMAGED; ) {
    const before = await sizeOf(path)
    try {
      if (before < file.size_bytes || file.size_bytes === 0) await append(file.name, path, before, { client, onPart })
    } catch (error) {
      // what has a code of ours was decided; everything else is a connection that broke
      fruitless = (await sizeOf(path)) > before ? 0 : fruitless + 1
      if (error instanceof AppError || isFullDisk(error) || fruitless === MAX_FRUITLESS) throw error
      continue
    }
    if ((await digestOf(path, onPart)) === file.sha256) return
    damaged += 1
    await rm(path, { force: true })
  }
  throw new AppError(
    'internal',
    'base_model_damaged',
    `file "${file.name}" of the base model does not come with its digest from the server`,
    { hint: 'was it changed while it was fetched? Submit the job again' },
  )
}

/** Goes on behind what is there, or begins anew where the source knows no ranges. */
async function append(
  name: string,
  path: string,
  before: number,
  { client, onPart }: Pick<FetchOptions, 'client' | 'onPart'>,
): Promise<void> {
  const { parts, from } = await client.openBaseModelFile(name, before)
  await pipeline(
    parts,
    async function* count(all: AsyncIterable<Uint8Array>) {
      for await (const part of all) {
        onPart()
        yield part
      }
    },
    createWriteStream(path, from === before ? { flags: 'a' } : {}),
  )
}

/** Of what is on the disk: a connection that broke may have left less there than came. */
async function digestOf(path: string, onPart: () => void): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    onPart()
    hash.update(part as Buffer)
  }
  return hash.digest('hex')
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  )
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
