/**
 * Which base models a server begins with: those it is started with, or the default one, and those that were added while it ran before.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { BUILT_IN_MODELS, DEFAULT_BASE_MODEL } from '../built-in-models.js'
import { readyEntries } from '../operations/base-models/base-models.js'
import { createShelf, type Shelf, type ShelfEntry } from '../operations/base-models/shelf.js'
import type { BaseModelEntry } from '../operations/context.js'
import type { ServiceOptions } from '../options.js'
import type { DataDir } from '../storage/data-dir.js'

export interface ServedModels {
  /** In the order given, then in the order added. */
  readonly served: BaseModelEntry[]
  /** Those that were added, also such that are not whole; not those whose name was given. */
  readonly added: readonly ShelfEntry[]
  readonly shelf: Shelf
}

/** @throws {InvalidRequestError} `duplicate_base_model`, `invalid_base_model`; {WeightsError} `built_in_model_damaged` */
export async function readServedModels(options: ServiceOptions, dataDir: DataDir): Promise<ServedModels> {
  const shelf = createShelf(dataDir.baseModelsPath)
  const all = await shelf.read()
  const given = await resolveBaseModels(options, dataDir)
  // what the server is started with goes before what was added under the same name
  const added = all.filter(({ name }) => given.every((entry) => entry.name !== name))
  return { served: [...given, ...readyEntries(shelf, added)], added, shelf }
}

async function resolveBaseModels(options: ServiceOptions, dataDir: DataDir): Promise<readonly BaseModelEntry[]> {
  const given = options.baseModels ?? []
  const wanted: typeof given = given.length > 0 ? given : [DEFAULT_BASE_MODEL]
  const entries = new Map<string, BaseModelEntry>()
  for (const model of wanted) {
    requireBaseModel(model)
    const name = typeof model === 'string' ? model : model.name
    if (entries.has(name)) {
      throw new InvalidRequestError('duplicate_base_model', `base model name "${name}" is given twice`, {
        hint: 'write --base-model name=path with another name',
      })
    }
    entries.set(name, typeof model === 'string' ? { name, sourcePath: await BUILT_IN_MODELS[model](dataDir) } : model)
  }
  return [...entries.values()]
}

/** Programs in JavaScript reach this without a type checker. */
function requireBaseModel(model: unknown): void {
  const isBuiltIn = typeof model === 'string' && Object.hasOwn(BUILT_IN_MODELS, model)
  const isEntry =
    typeof model === 'object' &&
    model !== null &&
    ['name', 'sourcePath'].every((key) => typeof (model as Readonly<Record<string, unknown>>)[key] === 'string')
  if (isBuiltIn || isEntry) return
  const builtIn = Object.keys(BUILT_IN_MODELS).join(', ')
  throw new InvalidRequestError(
    'invalid_base_model',
    `baseModels: expected the name of a built-in model (${builtIn}) or { name, sourcePath }, got ${JSON.stringify(model)}`,
    { hint: 'sourcePath is a Hugging Face folder or a GGUF file' },
  )
}
