/**
 * Base models of a running server: those it was started with, and those added since, from its own disk or from a hub.
 *
 * Adding and removing changes the list that everything else reads (`ServiceContext.baseModels`), without a restart. A model appears there
 * once every byte is there and it was found usable. The hub is asked only when somebody adds a model from it.
 */
import { lstat, mkdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { moveFile, removeTree } from '#base/util/move-file.js'
import { type List, toList } from '#contract/wire/list.js'
import type { AddBaseModelRequest, BaseModel, DeleteBaseModelResponse } from '#contract/wire/models.js'
import type { LoadedEvent } from '#inference/host/protocol.js'
import type { ModelFacts, ModelInspector } from '#service/processes/model-inspector.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { countModelsOf, isModelAddress } from '#service/storage/models.js'
import { createDownloadNotices, type DownloadState } from '../activity/download-notices.js'
import type { BaseModelEntry, Principal, ServiceContext } from '../context.js'
import { findAdapterFiles } from '../models/adapter-files.js'
import type { HubConnection } from './hub-connection.js'
import { createHubImports, type HubImports } from './hub-imports.js'
import type { Shelf, ShelfEntry } from './shelf.js'

export interface BaseModelService {
  /** Names that a model may be created from. */
  names(): readonly string[]
  list(principal: Principal): Promise<List<BaseModel>>
  get(principal: Principal, name: string): Promise<BaseModel>
  /** Adds one; returns at once, a download goes on. */
  add(principal: Principal, request: AddBaseModelRequest): Promise<BaseModel>
  remove(name: string): Promise<DeleteBaseModelResponse>
  /** Stops downloads; what they have stays for the next time. */
  close(): Promise<void>
}

export interface BaseModelOptions {
  /** The list of the context; this service alone changes it. */
  readonly served: BaseModelEntry[]
  /** What was added before this start. */
  readonly added: readonly ShelfEntry[]
  readonly shelf: Shelf
  /** Other servers share the database. Default false */
  readonly isShared?: boolean
  readonly connection: HubConnection
  readonly inspector: ModelInspector
  /** Wait before a broken download is opened again, milliseconds. */
  readonly retryMs: number
}

/** Parts of a name: letters, digits, dot, dash, underscore; at most two of them, for a third would be an entity. */
const NAME = /^[\p{L}\p{N}_][\p{L}\p{N}_.-]*(?:\/[\p{L}\p{N}_][\p{L}\p{N}_.-]*)?$/u
/** Last word of a route. */
const RESERVED = 'details'
const INCOMING = /^incoming-[\w.-]{1,100}$/
/** Requests that run when a base model is removed may finish. */
const DRAIN_MS = 5000

/** What it works with. */
type Context = Pick<
  ServiceContext,
  | 'db'
  | 'blobs'
  | 'ids'
  | 'clock'
  | 'logger'
  | 'activity'
  | 'engines'
  | 'exporter'
  | 'modelFacts'
  | 'toolFormatOf'
  | 'preparedDir'
>

export function createBaseModelService(context: Context, options: BaseModelOptions): BaseModelService {
  return new BaseModels(context, options)
}

class BaseModels implements BaseModelService {
  readonly #context: Context
  readonly #options: BaseModelOptions
  /** Those of the start that were not added: they cannot be removed here. */
  readonly #configured: ReadonlySet<string>
  readonly #shelved: Map<string, ShelfEntry>
  readonly #tellDownload: (name: string, state: DownloadState) => void
  readonly #hub: HubImports

  constructor(context: Context, options: BaseModelOptions) {
    this.#context = context
    this.#options = options
    const addedNames = new Set(options.added.map((entry) => entry.name))
    this.#configured = new Set(options.served.map((entry) => entry.name).filter((name) => !addedNames.has(name)))
    this.#shelved = new Map(
      options.added.filter(({ name }) => !this.#configured.has(name)).map((entry) => [entry.name, entry]),
    )
    for (const { name, facts } of this.#shelved.values()) {
      // one that an older version wrote lacks what is looked for today: it is looked at again
      const isWhole = Array.isArray(facts?.warnings) && facts.toolFormat !== undefined && facts.lostTokens !== undefined
      if (isWhole) context.modelFacts.remember(name, facts)
    }
    this.#tellDownload = createDownloadNotices(context)
    this.#hub = createHubImports({
      ...options,
      logger: context.logger,
      clock: context.clock,
      onEntry: (entry) => {
        this.#shelved.set(entry.name, entry)
        if (entry.facts !== null) this.#publish(entry)
        this.#noteDownload(entry.name)
      },
      onProgress: (name) => this.#noteDownload(name),
      onUnusable: async (name) => {
        this.#shelved.delete(name)
        await options.shelf.remove(name)
      },
    })
  }

  names(): readonly string[] {
    return this.#options.served.map((entry) => entry.name)
  }

  async list(principal: Principal): Promise<List<BaseModel>> {
    const names = new Set([
      ...this.#options.served.map((entry) => entry.name),
      ...this.#shelved.keys(),
      ...this.#hub.names(),
    ])
    const all = await Promise.all([...names].map((name) => this.#describe(principal, name)))
    const rows = all.filter((row) => row !== null)
    return toList(rows, false)
  }

  async get(principal: Principal, name: string): Promise<BaseModel> {
    const description = await this.#describe(principal, name)
    if (description === null) throw notFound(name)
    return description
  }

  async add(principal: Principal, request: AddBaseModelRequest): Promise<BaseModel> {
    this.#assertAlone()
    const { hub: repository, path } = request
    if ((request.from_adapter ?? null) !== null) return await this.#addMerged(principal, request)
    if ((request.base_model ?? null) !== null) {
      throw new InvalidRequestError('invalid_source', 'base_model needs from_adapter', { param: 'base_model' })
    }
    if ((repository ?? null) === null && typeof path === 'string') {
      const unused = request.file ?? request.revision ?? null
      if (typeof request.name !== 'string' || unused !== null) {
        throw new InvalidRequestError('invalid_source', 'path needs name, and neither file nor revision')
      }
      await this.#addLocal(request.name, path)
      return await this.get(principal, request.name)
    }
    if (typeof repository !== 'string' || (path ?? null) !== null) {
      throw new InvalidRequestError('invalid_source', 'give hub, path, or base_model with from_adapter')
    }
    const name = request.name ?? repository
    const wanted = { name, repository, revision: request.revision ?? 'main', file: request.file ?? null }
    // the same request again goes on with a download, or tells how far it is
    if (!this.#hub.isSame(wanted, this.#shelved.get(name))) await this.#checkName(name)
    await this.#hub.start(wanted, this.#shelved.get(name))
    return await this.get(principal, name)
  }

  async remove(name: string): Promise<DeleteBaseModelResponse> {
    this.#assertAlone()
    if (this.#configured.has(name)) {
      throw new ConflictError('base_model_configured', `base model "${name}" was given when the server was started`, {
        hint: 'start the server without its --base-model',
      })
    }
    const entry = this.#shelved.get(name)
    if (entry === undefined && this.#hub.progressOf(name) === null) throw notFound(name)
    const at = this.#options.served.findIndex((each) => each.name === name)
    // unlisted first: a model that is being created is either counted here or refused there
    const [live] = at < 0 ? [] : this.#options.served.splice(at, 1)
    const count = await inTransaction(this.#context.db, (transaction) => countModelsOf(transaction, name))
    if (count > 0) {
      if (live !== undefined) this.#options.served.splice(at, 0, live)
      throw new ConflictError('base_model_in_use', `base model "${name}" has ${count} model(s) trained from it`, {
        hint: 'trainyard models delete <model> removes a model',
      })
    }
    await this.#hub.stop(name)
    await this.#context.engines.remove(name, DRAIN_MS)
    this.#shelved.delete(name)
    this.#context.modelFacts.forget(name)
    await this.#options.shelf.remove(name)
    await this.#removePrepared(entry?.facts?.digest ?? null)
    this.#context.logger.info({ base_model: name }, 'base_model.removed')
    return { id: name, object: 'base_model', deleted: true }
  }

  close(): Promise<void> {
    return this.#hub.close()
  }

  #noteDownload(name: string): void {
    const source = this.#shelved.get(name)?.source
    const files = source?.type === 'hub' ? source.files : null
    const totalBytes = files?.reduce((sum, file) => sum + file.sizeBytes, 0) ?? null
    const state = this.#hub.progressOf(name) ?? { status: 'ready' as const, downloadedBytes: totalBytes, error: null }
    this.#tellDownload(name, { ...state, totalBytes })
  }

  #publish(entry: ShelfEntry): void {
    if (entry.facts !== null) this.#context.modelFacts.remember(entry.name, entry.facts)
    this.#options.served.push({ name: entry.name, sourcePath: this.#options.shelf.sourcePathOf(entry) })
    this.#context.logger.info({ base_model: entry.name, ...entry.facts }, 'base_model.added')
  }

  async #factsOf(entry: BaseModelEntry): Promise<ModelFacts | string> {
    try {
      // what a link points to may be gone
      await stat(entry.sourcePath)
      return await this.#context.modelFacts.factsOf(entry)
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  async #describe(principal: Principal, name: string): Promise<BaseModel | null> {
    const live = this.#options.served.find((entry) => entry.name === name)
    const entry = this.#shelved.get(name)
    const progress = this.#hub.progressOf(name)
    if (live === undefined && entry === undefined && progress === null) return null
    const found = live === undefined ? null : await this.#factsOf(live)
    const known = typeof found === 'string' ? null : found
    const engine = this.#context.engines.started().find(({ baseModel }) => baseModel === name)
    const source = entry?.source
    const hubSource = source?.type === 'hub' ? source : null
    const waiting = progress?.status ?? 'interrupted'
    const totalBytes = hubSource === null ? null : hubSource.files.reduce((sum, file) => sum + file.sizeBytes, 0)
    return {
      id: name,
      object: 'base_model',
      name,
      status: live === undefined ? waiting : known === null ? 'failed' : 'ready',
      source: source?.type ?? (progress === null ? 'server' : 'hub'),
      repository: hubSource?.repository ?? progress?.repository ?? null,
      commit: hubSource?.commit ?? null,
      architecture: known?.architecture ?? null,
      parameters: known?.parameters ?? null,
      context_length: known?.contextLength ?? null,
      size_bytes: known?.sizeBytes ?? null,
      precision: known?.precision ?? null,
      serving_precision: engine?.loaded()?.precision ?? null,
      device: deviceOf(engine?.loaded() ?? null),
      tool_format: this.#context.toolFormatOf(name) ?? known?.toolFormat ?? null,
      sampling: known?.sampling ?? null,
      lost_tokens: known?.lostTokens?.map((token) => ({ ...token })) ?? null,
      downloaded_bytes: live === undefined ? (progress?.downloadedBytes ?? null) : totalBytes,
      total_bytes: totalBytes,
      models: await countModelsOf(this.#context.db, name, principal),
      error: typeof found === 'string' ? found : (progress?.error ?? null),
      warnings: [...(known?.warnings ?? [])],
      added_at: entry === undefined ? null : new Date(entry.addedAtMs).toISOString(),
    }
  }

  async #checkName(name: string): Promise<void> {
    if (!NAME.test(name) || name === RESERVED) {
      throw new InvalidRequestError(
        'invalid_name',
        `name must be like "organisation/model": letters, digits, ".", "-" and "_", got "${name.slice(0, 100)}"`,
        { param: 'name' },
      )
    }
    const taken = [...this.#options.served.map((entry) => entry.name), ...this.#shelved.keys()]
    const alike = taken.find((other) => other.toLowerCase() === name.toLowerCase())
    if (alike !== undefined) {
      const hint = `give it another name, or remove "${alike}" first`
      throw new ConflictError('base_model_already_exists', `base model "${alike}" exists already`, { hint })
    }
    // chat requests look for base models first: the model would no longer be reached by this address
    if (await isModelAddress(this.#context.db, name)) {
      throw new ConflictError('name_taken', `"${name}" is the address of a model already`, { param: 'name' })
    }
  }

  async #addLocal(name: string, path: string): Promise<void> {
    if (!INCOMING.test(path)) {
      throw new InvalidRequestError(
        'invalid_path',
        `path must be the plain name of an "incoming-…" entry, got "${path}"`,
        {
          param: 'path',
          hint: 'trainyard base-models add <folder or file> makes one, on the machine of the server',
        },
      )
    }
    await this.#checkName(name)
    const incoming = join(this.#options.shelf.directory, basename(path))
    if ((await lstat(incoming).catch(() => null)) === null) {
      throw new NotFoundError('path_not_found', `the data directory has no base-models/${path}`, { param: 'path' })
    }
    const inspected = await this.#options.inspector.inspect(incoming, { hasDigest: true })
    await this.#checkName(name)
    const entry: ShelfEntry = {
      name,
      addedAtMs: this.#context.clock.nowMs(),
      source: { type: 'local' },
      facts: inspected,
    }
    this.#shelved.set(name, entry)
    try {
      // what an earlier attempt left there has no description: it was never served
      await removeTree(this.#options.shelf.pathOf(name))
      await moveFile(incoming, this.#options.shelf.pathOf(name))
      await this.#options.shelf.write(entry)
    } catch (error) {
      this.#shelved.delete(name)
      throw error
    }
    this.#publish(entry)
  }

  /** A model that is merged of another one and an adapter lies there as one that was added from this disk. */
  async #addMerged(principal: Principal, request: AddBaseModelRequest): Promise<BaseModel> {
    const { name, base_model: baseModel, from_adapter: adapter } = request
    const others = [request.hub, request.path, request.file, request.revision]
    if (typeof name !== 'string' || typeof baseModel !== 'string' || others.some((each) => (each ?? null) !== null)) {
      throw new InvalidRequestError('invalid_source', 'from_adapter needs name and base_model, and no other source')
    }
    const base = this.#options.served.find((entry) => entry.name === baseModel)
    if (base === undefined) throw notFound(baseModel)
    await this.#checkName(name)
    const files = await findAdapterFiles(this.#context, principal, adapter ?? { adapter_config: '', adapter_model: '' })
    const path = `incoming-${this.#context.ids.uuid()}`
    const target = join(this.#options.shelf.directory, path)
    try {
      await mkdir(target, { recursive: true, mode: 0o700 })
      const request = { sourcePath: base.sourcePath, baseModel, ...files, targetPath: target }
      const notes = await this.#context.exporter.mergeAdapter(principal.keyId, request)
      await this.#addLocal(name, path)
      const added = await this.get(principal, name)
      return { ...added, warnings: [...added.warnings, ...notes] }
    } finally {
      await removeTree(target)
    }
  }

  /** The others would not know of it, and refuse requests or fail jobs that this one takes. */
  #assertAlone(): void {
    if (this.#options.isShared !== true) return
    throw new ConflictError(
      'base_models_fixed',
      'several servers share the database: base models are given at their start',
      {
        hint: 'start each of them with the same --base-model <name>=<folder or file>, or start the only server with --single-server',
      },
    )
  }

  /** Prepared weights of a model that nobody serves any more. A model of the start may share them: then they are made again. */
  async #removePrepared(digest: string | null): Promise<void> {
    const isShared = [...this.#shelved.values()].some((entry) => entry.facts?.digest === digest)
    if (digest === null || isShared) return
    await removeTree(join(this.#context.preparedDir, digest))
  }
}

function notFound(name: string): NotFoundError {
  return new NotFoundError('base_model_not_found', `base model "${name.slice(0, 200)}" was not found`, {
    hint: 'GET /v1/preview/base-models lists them',
  })
}

/** The models that earlier runs added, as far as they are whole: what a server begins with beside those it is given. */
export function readyEntries(shelf: Shelf, entries: readonly ShelfEntry[]): readonly BaseModelEntry[] {
  return entries
    .filter((entry) => entry.facts !== null)
    .map((entry) => ({ name: entry.name, sourcePath: shelf.sourcePathOf(entry) }))
}

/** What computes a base model's answers. */
function deviceOf(loaded: LoadedEvent | null): string | null {
  if (loaded === null) return null
  return loaded.precision === null ? 'engine nodes' : (loaded.device?.description ?? 'cpu')
}
