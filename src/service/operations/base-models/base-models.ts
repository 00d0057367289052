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
import { createDownloadNotices } from '../activity/download-notices.js'
import type { BaseModelEntry, Principal, ServiceContext } from '../context.js'
import { findAdapterFiles } from '../models/adapter-files.js'
import type { HubConnection } from './hub-connection.js'
import { createHubImports } from './hub-imports.js'
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
  const { db, logger, modelFacts } = context
  const { served, shelf, inspector } = options
  /** Those of the start that were not added: they cannot be removed here. */
  const addedNames = new Set(options.added.map((entry) => entry.name))
  const configured = new Set(served.map((entry) => entry.name).filter((name) => !addedNames.has(name)))
  const shelved = new Map(options.added.filter(({ name }) => !configured.has(name)).map((entry) => [entry.name, entry]))
  for (const { name, facts } of shelved.values()) {
    // one that an older version wrote knows no warnings, or no form of calls: it is looked at again
    if (Array.isArray(facts?.warnings) && facts.toolFormat !== undefined) modelFacts.remember(name, facts)
  }
  const tellDownload = createDownloadNotices(context)
  const hub = createHubImports({
    ...options,
    logger,
    clock: context.clock,
    onEntry: (entry) => {
      shelved.set(entry.name, entry)
      if (entry.facts !== null) publish(entry)
      noteDownload(entry.name)
    },
    onProgress: noteDownload,
    onUnusable: async (name) => {
      shelved.delete(name)
      await shelf.remove(name)
    },
  })

  function noteDownload(name: string): void {
    const source = shelved.get(name)?.source
    const files = source?.type === 'hub' ? source.files : null
    const totalBytes = files?.reduce((sum, file) => sum + file.sizeBytes, 0) ?? null
    const state = hub.progressOf(name) ?? { status: 'ready' as const, downloadedBytes: totalBytes, error: null }
    tellDownload(name, { ...state, totalBytes })
  }

  function publish(entry: ShelfEntry): void {
    if (entry.facts !== null) modelFacts.remember(entry.name, entry.facts)
    served.push({ name: entry.name, sourcePath: shelf.sourcePathOf(entry) })
    logger.info({ base_model: entry.name, ...entry.facts }, 'base_model.added')
  }

  async function factsOf(entry: BaseModelEntry): Promise<ModelFacts | string> {
    try {
      // what a link points to may be gone
      await stat(entry.sourcePath)
      return await modelFacts.factsOf(entry)
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  async function describe(principal: Principal, name: string): Promise<BaseModel | null> {
    const live = served.find((entry) => entry.name === name)
    const entry = shelved.get(name)
    const progress = hub.progressOf(name)
    if (live === undefined && entry === undefined && progress === null) return null
    const found = live === undefined ? null : await factsOf(live)
    const known = typeof found === 'string' ? null : found
    const engine = context.engines.started().find(({ baseModel }) => baseModel === name)
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
      tool_format: context.toolFormatOf(name) ?? known?.toolFormat ?? null,
      downloaded_bytes: live === undefined ? (progress?.downloadedBytes ?? null) : totalBytes,
      total_bytes: totalBytes,
      models: await countModelsOf(db, name, principal),
      error: typeof found === 'string' ? found : (progress?.error ?? null),
      warnings: [...(known?.warnings ?? [])],
      added_at: entry === undefined ? null : new Date(entry.addedAtMs).toISOString(),
    }
  }

  async function requireDescription(principal: Principal, name: string): Promise<BaseModel> {
    const description = await describe(principal, name)
    if (description === null) throw notFound(name)
    return description
  }

  async function checkName(name: string): Promise<void> {
    if (!NAME.test(name) || name === RESERVED) {
      throw new InvalidRequestError(
        'invalid_name',
        `name must be like "organisation/model": letters, digits, ".", "-" and "_", got "${name.slice(0, 100)}"`,
        { param: 'name' },
      )
    }
    const taken = [...served.map((entry) => entry.name), ...shelved.keys()]
    const alike = taken.find((other) => other.toLowerCase() === name.toLowerCase())
    if (alike !== undefined) {
      const hint = `give it another name, or remove "${alike}" first`
      throw new ConflictError('base_model_already_exists', `base model "${alike}" exists already`, { hint })
    }
    // chat requests look for base models first: the model would no longer be reached by this address
    if (await isModelAddress(db, name)) {
      throw new ConflictError('name_taken', `"${name}" is the address of a model already`, { param: 'name' })
    }
  }

  async function addLocal(name: string, path: string): Promise<void> {
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
    await checkName(name)
    const incoming = join(shelf.directory, basename(path))
    if ((await lstat(incoming).catch(() => null)) === null) {
      throw new NotFoundError('path_not_found', `the data directory has no base-models/${path}`, { param: 'path' })
    }
    const inspected = await inspector.inspect(incoming, { hasDigest: true })
    await checkName(name)
    const entry: ShelfEntry = { name, addedAtMs: context.clock.nowMs(), source: { type: 'local' }, facts: inspected }
    shelved.set(name, entry)
    try {
      // what an earlier attempt left there has no description: it was never served
      await removeTree(shelf.pathOf(name))
      await moveFile(incoming, shelf.pathOf(name))
      await shelf.write(entry)
    } catch (error) {
      shelved.delete(name)
      throw error
    }
    publish(entry)
  }

  /** A model that is merged of another one and an adapter lies there as one that was added from this disk. */
  async function addMerged(principal: Principal, request: AddBaseModelRequest): Promise<BaseModel> {
    const { name, base_model: baseModel, from_adapter: adapter } = request
    const others = [request.hub, request.path, request.file, request.revision]
    if (typeof name !== 'string' || typeof baseModel !== 'string' || others.some((each) => (each ?? null) !== null)) {
      throw new InvalidRequestError('invalid_source', 'from_adapter needs name and base_model, and no other source')
    }
    const base = served.find((entry) => entry.name === baseModel)
    if (base === undefined) throw notFound(baseModel)
    await checkName(name)
    const files = await findAdapterFiles(context, principal, adapter ?? { adapter_config: '', adapter_model: '' })
    const path = `incoming-${context.ids.uuid()}`
    const target = join(shelf.directory, path)
    try {
      await mkdir(target, { recursive: true, mode: 0o700 })
      const request = { sourcePath: base.sourcePath, baseModel, ...files, targetPath: target }
      const notes = await context.exporter.mergeAdapter(principal.keyId, request)
      await addLocal(name, path)
      const added = await requireDescription(principal, name)
      return { ...added, warnings: [...added.warnings, ...notes] }
    } finally {
      await removeTree(target)
    }
  }

  async function add(principal: Principal, request: AddBaseModelRequest): Promise<BaseModel> {
    assertAlone()
    const { hub: repository, path } = request
    if ((request.from_adapter ?? null) !== null) return await addMerged(principal, request)
    if ((request.base_model ?? null) !== null) {
      throw new InvalidRequestError('invalid_source', 'base_model needs from_adapter', { param: 'base_model' })
    }
    if ((repository ?? null) === null && typeof path === 'string') {
      const unused = request.file ?? request.revision ?? null
      if (typeof request.name !== 'string' || unused !== null) {
        throw new InvalidRequestError('invalid_source', 'path needs name, and neither file nor revision')
      }
      await addLocal(request.name, path)
      return await requireDescription(principal, request.name)
    }
    if (typeof repository !== 'string' || (path ?? null) !== null) {
      throw new InvalidRequestError('invalid_source', 'give hub, path, or base_model with from_adapter')
    }
    const name = request.name ?? repository
    const wanted = { name, repository, revision: request.revision ?? 'main', file: request.file ?? null }
    // the same request again goes on with a download, or tells how far it is
    if (!hub.isSame(wanted, shelved.get(name))) await checkName(name)
    await hub.start(wanted, shelved.get(name))
    return await requireDescription(principal, name)
  }

  /** The others would not know of it, and refuse requests or fail jobs that this one takes. */
  function assertAlone(): void {
    if (options.isShared !== true) return
    throw new ConflictError(
      'base_models_fixed',
      'several servers share the database: base models are given at their start',
      {
        hint: 'start each of them with the same --base-model <name>=<folder or file>, or start the only server with --single-server',
      },
    )
  }

  async function remove(name: string): Promise<DeleteBaseModelResponse> {
    assertAlone()
    if (configured.has(name)) {
      throw new ConflictError('base_model_configured', `base model "${name}" was given when the server was started`, {
        hint: 'start the server without its --base-model',
      })
    }
    const entry = shelved.get(name)
    if (entry === undefined && hub.progressOf(name) === null) throw notFound(name)
    const at = served.findIndex((each) => each.name === name)
    // unlisted first: a model that is being created is either counted here or refused there
    const [live] = at < 0 ? [] : served.splice(at, 1)
    const count = await inTransaction(db, (transaction) => countModelsOf(transaction, name))
    if (count > 0) {
      if (live !== undefined) served.splice(at, 0, live)
      throw new ConflictError('base_model_in_use', `base model "${name}" has ${count} model(s) trained from it`, {
        hint: 'trainyard models delete <model> removes a model',
      })
    }
    await hub.stop(name)
    await context.engines.remove(name, DRAIN_MS)
    shelved.delete(name)
    modelFacts.forget(name)
    await shelf.remove(name)
    await removePrepared(entry?.facts?.digest ?? null)
    logger.info({ base_model: name }, 'base_model.removed')
    return { id: name, object: 'base_model', deleted: true }
  }

  /** Prepared weights of a model that nobody serves any more. A model of the start may share them: then they are made again. */
  async function removePrepared(digest: string | null): Promise<void> {
    const isShared = [...shelved.values()].some((entry) => entry.facts?.digest === digest)
    if (digest === null || isShared) return
    await removeTree(join(context.preparedDir, digest))
  }

  return {
    names: () => served.map((entry) => entry.name),
    async list(principal) {
      const names = new Set([...served.map((entry) => entry.name), ...shelved.keys(), ...hub.names()])
      const all = await Promise.all([...names].map((name) => describe(principal, name)))
      const rows = all.filter((row) => row !== null)
      return toList(rows, false)
    },
    get: requireDescription,
    add,
    remove,
    close: () => hub.close(),
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
