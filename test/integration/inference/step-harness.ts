/**
 * Runs a step model by hand: whole prompts, chunks, single tokens, batches; returns logits row by row.
 */

import type { AdapterLayout } from '#inference/engine/runner/adapter-layout.js'
import { KvCache } from '#inference/engine/runner/kv-cache.js'
import { loadStepModel, type StepModel } from '#inference/engine/runner/step-model.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'

export function loadForTest(prepared: PreparedModel, precision: Precision = 'f32'): Promise<StepModel> {
  const contextLength = prepared.config.contextLength
  return loadStepModel({ runtime: createOrtRuntime(), prepared, precision, threads: 1, contextLength })
}

/** An empty cache with one row per group. */
export function newCache(config: DecoderConfig, rows = 1, width = 1): KvCache {
  const { layerCount, kvHeadCount, headSize } = config
  const cache = new KvCache({ layerCount, kvHeadCount, headSize }, width)
  for (let row = 0; row < rows; row++) cache.addRow()
  return cache
}

/** A prompt in `prompts` (by row), tokens after it in `tails` (by row and member), new ids. */
export interface TestSequence {
  readonly row: number
  readonly member?: number
  readonly ids: readonly number[]
  readonly adapter?: AdapterLayout | null
}

/**
 * One step of any sequences; new tokens are appended to their tails.
 *
 * @returns the logits of every new token, sequence by sequence
 */
export async function step(
  model: StepModel,
  cached: { readonly prompts: KvCache | null; readonly tails: KvCache },
  sequences: readonly TestSequence[],
): Promise<Float32Array[][]> {
  const { prompts, tails } = cached
  const adapters = [...new Set(sequences.flatMap(({ adapter }) => adapter ?? []))]
  const total = sequences.reduce((sum, { ids }) => sum + ids.length, 0)
  const result = await model.run(
    {
      sequences: sequences.map(({ row, member = 0, ids, adapter = null }) => ({
        row,
        member,
        ids,
        promptLength: prompts?.lengthOf(row) ?? 0,
        tailLength: tails.lengthOf(row, member),
        adapter: adapter === null ? -1 : adapters.indexOf(adapter),
      })),
      groups: tails.rowCount,
      width: tails.width,
      prompts,
      tails,
      logitRows: Array.from({ length: total }, (_, i) => i),
      inverseTemperatures: Array.from({ length: total }, () => 1),
      adapters,
    },
    ['logits'],
  )
  const rows = rowsOf(result.logits, model.config.vocabularySize)
  const tokens = Math.max(...sequences.map(({ ids }) => ids.length))
  const slots = tails.rowCount * tails.shape.kvHeadCount * tails.width
  const longest = sequences.map(({ row, member = 0, ids }) => tails.lengthOf(row, member) + ids.length)
  tails.setCapacity(Math.max(tails.capacity, ...longest))
  for (const { row, member = 0, ids } of sequences) {
    const from = { data: result.newRows, slots, width: tails.width, row, member, tokens, count: ids.length }
    tails.append({ row, member }, from)
  }
  let at = 0
  return sequences.map(({ ids }) => {
    at += ids.length
    return rows.slice(at - ids.length, at)
  })
}

/** Feeds `ids` to one sequence without a prompt and returns the logits of every one of them: [ids.length][V]. */
export async function feed(
  model: StepModel,
  ids: readonly number[],
  options: { readonly cache?: KvCache; readonly adapter?: AdapterLayout | null } = {},
): Promise<Float32Array[]> {
  const { cache = newCache(model.config), adapter = null } = options
  const [rows] = await step(model, { prompts: null, tails: cache }, [{ row: 0, ids, adapter }])
  return rows ?? []
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
