/**
 * The list of what `model` may be: base models, then the latest and every step of the principal's models.
 *
 * OpenAI's clients read it whole, and many do at each start, so it is made once for all who may see the same and kept as text while the
 * rows are those it was made of; a page of it is cut out. Resolves no names (`served-models.ts`).
 */
import { setImmediate } from 'node:timers/promises'
import type { ServedListQuery, ServedModel } from '#contract/wire/models.js'
import { checkpointsStamp, listStepsOf } from '#service/storage/checkpoints.js'
import { listModels, type ModelRecord, modelsStamp } from '#service/storage/models.js'
import { unknownCursor } from '#service/storage/paging.js'
import type { ServiceContext, Tenant } from '../../context.js'

/** A read of this many rows, with their cards, takes a few milliseconds; other requests take their turn between two. */
const MODELS_PER_READ = 200
/** Characters of all lists that are kept. */
const KEPT_CHARACTERS = 32_000_000
/** A kept list is made anew after this time, whatever the rows say: another server may have deleted a step. */
const KEPT_MS = 2000

type ListContext = Pick<ServiceContext, 'db' | 'clock' | 'engines' | 'baseModels' | 'modelFacts'>

export interface ServedList {
  /**
   * The answer's JSON: all of it without a query, else a page with `first_id`, `last_id` and `has_more`.
   *
   * @throws {InvalidRequestError} `invalid_cursor`
   */
  read(principal: Tenant, query: ServedListQuery): Promise<string>
}

interface Kept {
  readonly stamp: string
  readonly madeAtMs: number
  readonly cards: Promise<Cards>
}

interface Cards {
  /** Where each card stands among `texts`. */
  readonly places: ReadonlyMap<string, number>
  readonly ids: readonly string[]
  readonly texts: readonly string[]
  readonly characters: number
}

/** @param startedSeconds when this server began to serve its base models, unix time */
export function createServedList(context: ListContext, startedSeconds: number): ServedList {
  const kept = new Map<string, Kept>()

  async function cardsOf(principal: Tenant): Promise<Cards> {
    const key = JSON.stringify([principal.entity, principal.project])
    const stamp = await stampOf(context, principal)
    const nowMs = context.clock.monotonicMs()
    const before = kept.get(key)
    const isFresh = before !== undefined && before.stamp === stamp && nowMs - before.madeAtMs < KEPT_MS
    const entry = isFresh ? before : { stamp, madeAtMs: nowMs, cards: makeCards(context, principal, startedSeconds) }
    // the one asked for last comes last, so that the first is the one to forget
    kept.delete(key)
    kept.set(key, entry)
    try {
      const cards = await entry.cards
      await forgetOldest()
      return cards
    } catch (error) {
      if (kept.get(key) === entry) kept.delete(key)
      throw error
    }
  }

  async function forgetOldest(): Promise<void> {
    let characters = 0
    for (const [key, { cards }] of [...kept].reverse()) {
      characters += (await cards.catch(() => null))?.characters ?? 0
      if (characters > KEPT_CHARACTERS) kept.delete(key)
    }
  }

  return {
    read: async (principal, { after, limit }) => {
      const { ids, texts, places } = await cardsOf(principal)
      if (after === undefined && limit === undefined) return `{"object":"list","data":[${texts.join(',')}]}`
      const place = after === undefined ? -1 : places.get(after)
      if (place === undefined) throw unknownCursor(after ?? '')
      const end = Math.min(ids.length, place + 1 + (limit ?? ids.length))
      const edges = { first_id: ids[place + 1] ?? '', last_id: end > place + 1 ? (ids[end - 1] ?? '') : '' }
      const rest = JSON.stringify({ ...edges, has_more: end < ids.length }).slice(1)
      return `{"object":"list","data":[${texts.slice(place + 1, end).join(',')}],${rest}`
    },
  }
}

/** Other whenever the list may be. */
async function stampOf(context: ListContext, owner: Tenant): Promise<string> {
  const lengths = context.baseModels.map(({ name }) => [name, contextLengthOf(context, name)])
  return JSON.stringify([lengths, await modelsStamp(context.db, owner), await checkpointsStamp(context.db)])
}

async function makeCards(context: ListContext, principal: Tenant, startedSeconds: number): Promise<Cards> {
  const places = new Map<string, number>()
  const ids: string[] = []
  const texts: string[] = []
  let characters = 0
  const add = (model: ServedModel): void => {
    const text = JSON.stringify(model)
    characters += text.length
    places.set(model.id, texts.length)
    ids.push(model.id)
    texts.push(text)
  }
  for (const base of context.baseModels) add(baseCard(context, base.name, startedSeconds))
  let after: string | undefined
  for (;;) {
    const page = await listModels(context.db, {
      entity: principal.entity,
      project: principal.project ?? undefined,
      after,
      limit: MODELS_PER_READ,
    })
    const stepsByModel = new Map<string, { readonly step: number; readonly createdAtMs: number }[]>()
    const modelIds = page.items.map(({ id }) => id)
    for (const entry of await listStepsOf(context.db, modelIds)) {
      const steps = stepsByModel.get(entry.modelId)
      if (steps === undefined) stepsByModel.set(entry.modelId, [entry])
      else steps.push(entry)
    }
    for (const model of page.items) {
      add(modelCard(context, model, null, model.createdAtMs))
      for (const { step, createdAtMs } of stepsByModel.get(model.id) ?? [])
        add(modelCard(context, model, step, createdAtMs))
    }
    after = modelIds.at(-1)
    if (!page.hasMore || after === undefined) return { places, ids, texts, characters }
    await setImmediate()
  }
}

type Lengths = Pick<ServiceContext, 'engines' | 'modelFacts'>

export function baseCard(context: Lengths, name: string, startedSeconds: number): ServedModel {
  return { ...card(name, startedSeconds), max_model_len: contextLengthOf(context, name) }
}

/** As an engine has it; before one was started, as the files say. */
function contextLengthOf({ engines, modelFacts }: Lengths, baseModel: string): number | null {
  const engine = engines.started().find((started) => started.baseModel === baseModel)
  return engine?.loaded()?.contextLength ?? modelFacts.contextLengthOf(baseModel)
}

/** @param step null: the latest */
export function modelCard(context: Lengths, model: ModelRecord, step: number | null, createdAtMs: number): ServedModel {
  const name = `${model.entity}/${model.project}/${model.name}`
  const id = step === null ? name : `${name}:step${step}`
  const length = contextLengthOf(context, model.baseModel)
  return { ...card(id, Math.floor(createdAtMs / 1000)), root: name, parent: model.baseModel, max_model_len: length }
}

function card(id: string, created: number): ServedModel {
  return {
    id,
    object: 'model',
    created,
    owned_by: 'trainyard',
    root: id,
    parent: null,
    max_model_len: null,
    permission: [],
  }
}
