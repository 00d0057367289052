/**
 * Runs a step model by hand: whole prompts, chunks, single tokens, batches; returns logits row by row.
 */

import type { AdapterLayout } from '#inference/engine/adapter-layout.js'
import { KvCache } from '#inference/engine/cache/kv-cache.js'
import { loadStepModel, type StepModel } from '#inference/engine/step-model.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'

export function loadForTest(prepared: PreparedModel, precision: Precision = 'f32'): Promise<StepModel> {
  const contextLength = prepared.config.contextLength
  return loadStepModel({ runtime: createOrtRuntime(), prepared, precision, threads: 1, contextLength })
}

export function newCache(config: DecoderConfig, rows = 1, maxTokens = 64): KvCache {
  const { layerCount, kvHeadCount, headSize } = config
  return new KvCache({ layerCount, kvHeadCount, headSize }, rows, maxTokens)
}

/**
 * Feeds `ids` to one sequence and returns the logits of every one of them: [ids.length][V].
 *
 * @param cache a cache of one row, extended by the ids; null: nothing before, nothing kept
 */
export async function feed(
  model: StepModel,
  ids: readonly number[],
  options: { readonly cache?: KvCache | null; readonly adapter?: AdapterLayout | null } = {},
): Promise<Float32Array[]> {
  const { cache = null, adapter = null } = options
  const start = cache?.lengths[0] ?? 0
  const result = await model.run(
    {
      ids: Int32Array.from(ids),
      batch: 1,
      tokens: ids.length,
      starts: [start],
      cache: start === 0 ? null : cache,
      logitRows: ids.map((_, i) => i),
      inverseTemperatures: ids.map(() => 1),
      adapters: adapter === null ? [] : [adapter],
      adapterOfSequence: [adapter === null ? -1 : 0],
    },
    ['logits'],
  )
  if (cache !== null) {
    cache.setCapacity(Math.max(cache.capacity, start + ids.length))
    cache.append(0, result.newRows, { batch: 1, index: 0, tokens: ids.length, count: ids.length })
  }
  return rowsOf(result.logits, model.config.vocabularySize)
}

/** One token for every row of a cache; returns the logits of each. */
export async function feedBatch(
  model: StepModel,
  cache: KvCache,
  ids: readonly number[],
  adapters: readonly (AdapterLayout | null)[] = ids.map(() => null),
): Promise<Float32Array[]> {
  const present = [...new Set(adapters.filter((adapter) => adapter !== null))]
  const result = await model.run(
    {
      ids: Int32Array.from(ids),
      batch: ids.length,
      tokens: 1,
      starts: [...cache.lengths],
      cache,
      logitRows: ids.map((_, i) => i),
      inverseTemperatures: ids.map(() => 1),
      adapters: present,
      adapterOfSequence: adapters.map((adapter) => (adapter === null ? -1 : present.indexOf(adapter))),
    },
    ['logits'],
  )
  return rowsOf(result.logits, model.config.vocabularySize)
}

/** Largest difference of two lists of rows, relative to the largest value of the second. */
export function relativeError(actual: readonly Float32Array[], expected: readonly Float32Array[]): number {
  let error = 0
  let scale = 0
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY
  expected.forEach((row, i) => {
    row.forEach((value, j) => {
      const difference = Math.abs((actual[i]?.[j] ?? Number.NaN) - value)
      error = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(error, difference)
      scale = Math.max(scale, Math.abs(value))
    })
  })
  return error / scale
}

function rowsOf(logits: Float32Array | null, vocabularySize: number): Float32Array[] {
  if (logits === null) throw new Error('logits were not fetched')
  return Array.from({ length: logits.length / vocabularySize }, (_, i) =>
    logits.slice(i * vocabularySize, (i + 1) * vocabularySize),
  )
}
