/**
 * Adapters of an engine node, by digest: fetched from the server when one is first asked for, checked file by file, the ones
 * unused longest deleted when there are too many.
 */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { AppError, InvalidRequestError, isFullDisk } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import type { EngineAdapterFiles } from '#contract/processes/engine-node.js'
import type { AdapterRef } from '#inference/host/protocol.js'

export interface AdapterSourceOptions {
  /** @throws {AppError} if the server has none of it for this node */
  readonly list: (digest: string) => Promise<EngineAdapterFiles>
  readonly open: (digest: string, file: string) => Promise<AsyncIterable<Uint8Array>>
  readonly directory: string
  /** Adapters that are kept. */
  readonly most: number
  /** One is about to be deleted: when this resolves. Must not reject. */
  readonly onDrop?: (digest: string) => Promise<void>
}

/** An adapter and where its files lie. */
export interface HeldAdapter extends AdapterRef {
  readonly folder: string
}

export interface AdapterFolder {
  /**
   * An adapter whose files lie here.
   *
   * @throws {AppError} `adapter_damaged`, or as the server has it
   */
  ensure(digest: string): Promise<HeldAdapter>
  held(): readonly string[]
}

/** How often a file is asked for whose bytes are wrong, or whose connection breaks. */
const MAX_TRIES = 3
/** It becomes part of a path. */
const DIGEST = /^[0-9a-f]{64}$/

/** What lay there before is deleted: it may be half of something. */
export async function openAdapterFolder(options: AdapterSourceOptions): Promise<AdapterFolder> {
  const { directory, most, onDrop } = options
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true, mode: 0o700 })
  /** The one used last stands last. */
  const known = new Map<string, Promise<HeldAdapter>>()
  /** Those that are there: what is being fetched is in use. */
  const settled = new Map<string, HeldAdapter>()

  async function fetchAll(digest: string): Promise<HeldAdapter> {
    const { checkpoint, files } = await options.list(digest)
    // of its own: the folder of one that was dropped may still be on its way out
    const target = join(directory, `${digest}.${systemIds.uuid()}`)
    const incoming = `${target}.incoming`
    try {
      await mkdir(incoming, { mode: 0o700 })
      for (const file of files) await fetchFile(digest, file, join(incoming, file.name))
      await rename(incoming, target)
    } finally {
      await rm(incoming, { recursive: true, force: true })
    }
    const paths = files.map(({ name, sha256 }) => [name, { path: join(target, name), sha256 }] as const)
    return { digest, checkpoint, files: Object.fromEntries(paths), folder: target }
  }

  async function fetchFile(digest: string, file: EngineAdapterFiles['files'][number], path: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const hash = createHash('sha256')
      try {
        const body = await options.open(digest, file.name)
        await pipeline(
          body,
          async function* count(parts: AsyncIterable<Uint8Array>) {
            for await (const part of parts) {
              hash.update(part)
              yield part
            }
          },
          createWriteStream(path, { mode: 0o600 }),
        )
      } catch (error) {
        // what has a code of ours was decided; everything else is a connection that broke
        if (error instanceof AppError || isFullDisk(error) || attempt === MAX_TRIES) throw error
        continue
      }
      if (hash.digest('hex') === file.sha256) return
      if (attempt === MAX_TRIES) {
        throw new AppError(
          'unavailable',
          'adapter_damaged',
          `file "${file.name}" of an adapter does not come with its digest from the server`,
        )
      }
    }
  }

  /** @param asked stays */
  function dropOldest(asked: string): void {
    const old = [...known.keys()].flatMap((digest) => (digest === asked ? [] : (settled.get(digest) ?? [])))
    const dropped = old.slice(0, Math.max(0, known.size - most))
    // all at once: what is asked for meanwhile is fetched anew
    for (const { digest } of dropped) {
      known.delete(digest)
      settled.delete(digest)
    }
    // whoever asks for another one does not wait until nobody uses these
    // what cannot be deleted goes with the node's folder
    for (const adapter of dropped) remove(adapter).catch(() => undefined)
  }

  async function remove({ digest, folder }: HeldAdapter): Promise<void> {
    await onDrop?.(digest)
    await rm(folder, { recursive: true, force: true })
  }

  return {
    ensure: async (digest) => {
      if (!DIGEST.test(digest)) throw new InvalidRequestError('invalid_value', 'an adapter is named by its digest')
      const before = known.get(digest)
      const fetched = before ?? fetchAll(digest)
      known.delete(digest)
      known.set(digest, fetched)
      try {
        const adapter = await fetched
        if (known.get(digest) === fetched) settled.set(digest, adapter)
        dropOldest(digest)
        return adapter
      } catch (error) {
        if (known.get(digest) === fetched && !settled.has(digest)) known.delete(digest)
        throw error
      }
    },
    held: () => [...known.keys()],
  }
}
