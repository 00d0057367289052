/**
 * Downloads of base models from a hub: at most two at a time, each in the background, each resumed by asking for it again.
 */
import { mkdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, InvalidRequestError, shuttingDown } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { removeTree } from '#base/util/move-file.js'
import type { ModelInspector } from '#service/processes/model-inspector.js'
import type { HubConnection } from './hub-connection.js'
import type { Shelf, ShelfEntry } from './shelf.js'

/** What is asked for. */
export interface HubWish {
  readonly name: string
  readonly repository: string
  readonly revision: string
  readonly file: string | null
}

export interface HubProgress {
  readonly status: 'downloading' | 'interrupted' | 'failed'
  readonly repository: string
  readonly downloadedBytes: number
  readonly error: string | null
}

export interface HubImports {
  /** Whether `entry` or a running download is what `wish` asks for and not complete. */
  isSame(wish: HubWish, entry: ShelfEntry | undefined): boolean
  /**
   * Starts a download, or leaves the one that runs alone.
   *
   * @param entry what an earlier attempt left
   * @throws {AppError} what the hub says, `too_many_downloads`, `disk_full`
   */
  start(wish: HubWish, entry: ShelfEntry | undefined): Promise<void>
  /** Of a download that runs or ended without success; null for any other name. */
  progressOf(name: string): HubProgress | null
  names(): readonly string[]
  /** Ends a download and forgets it. */
  stop(name: string): Promise<void>
  close(): Promise<void>
}

export interface HubImportOptions {
  readonly shelf: Shelf
  readonly connection: HubConnection
  readonly inspector: ModelInspector
  readonly logger: Logger
  readonly clock: Clock
  readonly retryMs: number
  /** Called when a download begins and when it is complete. */
  readonly onEntry: (entry: ShelfEntry) => void
  /** Called when more of a download is there, and when one ends. */
  readonly onProgress: (name: string) => void
  /** Called when a model turned out to be unusable: its bytes are of no use. */
  readonly onUnusable: (name: string) => Promise<void>
}

interface Download {
  readonly wish: HubWish
  readonly controller: AbortController
  status: HubProgress['status']
  /** Bytes on disk by file. */
  readonly bytes: Map<string, number>
  error: string | null
  done: Promise<void>
}

/** Two fill a line; more only slow each other down. */
const MAX_DOWNLOADS = 2
/** Room that must be left beside a download. */
const SPARE_BYTES = 100e6
const REPOSITORY = /^\w[\w.-]{0,95}(?:\/\w[\w.-]{0,95})?$/
const REVISION = /^\w[\w.-]*(?:\/\w[\w.-]*)*$/

export function createHubImports(options: HubImportOptions): HubImports {
  return new HubDownloads(options)
}

class HubDownloads implements HubImports {
  readonly #options: HubImportOptions
  readonly #downloads = new Map<string, Download>()

  constructor(options: HubImportOptions) {
    this.#options = options
  }

  isSame(wish: HubWish, entry: ShelfEntry | undefined): boolean {
    const other = this.#downloads.get(wish.name)?.wish ?? (entry?.source.type === 'hub' ? entry.source : null)
    if (other === null || (entry !== undefined && entry.facts !== null)) return false
    return other.repository === wish.repository && other.revision === wish.revision && other.file === wish.file
  }

  async start(wish: HubWish, entry: ShelfEntry | undefined): Promise<void> {
    if (isRunning(this.#downloads.get(wish.name))) return
    if ([...this.#downloads.values()].filter(isRunning).length >= MAX_DOWNLOADS) {
      throw new AppError('rate_limited', 'too_many_downloads', `${MAX_DOWNLOADS} base models are being downloaded`, {
        hint: 'add this one when one of them is there',
      })
    }
    const controller = new AbortController()
    const download: Download = {
      wish,
      controller,
      status: 'downloading',
      bytes: new Map(),
      error: null,
      done: Promise.resolve(),
    }
    // before the first wait: the same request twice is one download
    this.#downloads.set(wish.name, download)
    const planning = this.#plan(wish, entry, controller.signal).then(async (planned) => {
      controller.signal.throwIfAborted()
      await this.#options.shelf.write(planned)
      return planned
    })
    download.done = planning.then(
      () => undefined,
      () => undefined,
    )
    try {
      const planned = await planning
      controller.signal.throwIfAborted()
      this.#options.onEntry(planned)
      download.done = this.#run(download, planned)
    } catch (error) {
      this.#downloads.delete(wish.name)
      throw error
    }
  }

  progressOf(name: string): HubProgress | null {
    const download = this.#downloads.get(name)
    if (download === undefined) return null
    const { status, error, bytes, wish } = download
    const downloadedBytes = [...bytes.values()].reduce((sum, count) => sum + count, 0)
    return { status, error, downloadedBytes, repository: wish.repository }
  }

  names(): readonly string[] {
    return [...this.#downloads.keys()]
  }

  async stop(name: string): Promise<void> {
    const download = this.#downloads.get(name)
    download?.controller.abort(new AppError('cancelled', 'cancelled', 'the base model was removed'))
    await download?.done
    this.#downloads.delete(name)
  }

  async close(): Promise<void> {
    const error = shuttingDown()
    for (const { controller } of this.#downloads.values()) controller.abort(error)
    await Promise.all([...this.#downloads.values()].map(({ done }) => done))
  }

  async #run(download: Download, entry: ShelfEntry): Promise<void> {
    const { wish, controller } = download
    const directory = this.#options.shelf.pathOf(entry.name)
    if (entry.source.type !== 'hub') return
    const { commit, files, repository } = entry.source
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const { downloadHubFile } = await import('./hub-download.js')
      for (const file of files) {
        await downloadHubFile(file, {
          connection: this.#options.connection,
          repository,
          commit,
          directory,
          signal: controller.signal,
          retryMs: this.#options.retryMs,
          onProgress: (bytes) => {
            download.bytes.set(file.name, bytes)
            this.#options.onProgress(wish.name)
          },
        })
        if (file.name === 'config.json') await this.#options.inspector.checkConfig(join(directory, file.name))
      }
      const facts = await this.#options.inspector.inspect(this.#options.shelf.sourcePathOf(entry), { hasDigest: true })
      controller.signal.throwIfAborted()
      const whole = { ...entry, facts }
      await this.#options.shelf.write(whole)
      this.#downloads.delete(wish.name)
      this.#options.onEntry(whole)
    } catch (error) {
      download.error = error instanceof Error ? error.message : String(error)
      if (controller.signal.aborted) {
        download.error = null
        download.status = 'interrupted'
        this.#options.onProgress(wish.name)
        return
      }
      const isUnusable = error instanceof AppError && error.category === 'invalid_request'
      if (isUnusable) await this.#options.onUnusable(wish.name)
      download.status = isUnusable ? 'failed' : 'interrupted'
      this.#options.onProgress(wish.name)
      this.#options.logger.warn({ base_model: wish.name, reason: download.error }, 'base_model.download_ended')
    }
  }

  async #plan(wish: HubWish, entry: ShelfEntry | undefined, signal: AbortSignal): Promise<ShelfEntry> {
    if (!REPOSITORY.test(wish.repository)) {
      throw new InvalidRequestError(
        'invalid_repository',
        `hub must be like "organisation/name", got "${wish.repository}"`,
        {
          param: 'hub',
        },
      )
    }
    if (!REVISION.test(wish.revision)) {
      throw new InvalidRequestError('invalid_revision', `revision must be a branch, tag or commit`, {
        param: 'revision',
      })
    }
    const { chooseHubFiles, listHubFiles } = await import('./hub-files.js')
    const listing = await listHubFiles(this.#options.connection, { ...wish, signal })
    const files = chooseHubFiles(listing, wish.repository, wish.file)
    const { repository, revision, file } = wish
    const source = { type: 'hub' as const, repository, revision, file, commit: listing.commit, files }
    // bytes of another commit are of no use
    const before = entry?.source.type === 'hub' ? entry.source.commit : listing.commit
    if (before !== listing.commit) await removeTree(this.#options.shelf.pathOf(wish.name))
    await this.#requireSpace(files.reduce((sum, file) => sum + file.sizeBytes, 0))
    return { name: wish.name, addedAtMs: entry?.addedAtMs ?? this.#options.clock.nowMs(), source, facts: null }
  }

  /** Counts what an earlier attempt left as missing: a little too strict. */
  async #requireSpace(totalBytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(this.#options.shelf.directory)
    const freeBytes = bavail * bsize
    if (freeBytes >= totalBytes + SPARE_BYTES) return
    const [needed, free] = [totalBytes, freeBytes].map((bytes) => `${Math.ceil(bytes / 1e6)} MB`)
    throw new AppError('unavailable', 'disk_full', `the model has ${needed}, the data directory has ${free} left`)
  }
}

function isRunning(download: Download | undefined): boolean {
  return download?.status === 'downloading'
}
