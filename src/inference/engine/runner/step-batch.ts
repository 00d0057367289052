/**
 * A general step as the step graph reads it: which tokens, whose they are, and what each may look at.
 */

import { maxOf } from '#base/util/lists.js'
import { type DecoderConfig, hasSlidingLayers } from '#model/architectures/decoder-config.js'
import { ATTENTION_INPUTS, cacheInput } from '#model/architectures/step-attention.js'
import { STEP_INPUTS } from '#model/architectures/step-graph.js'
import type { DeviceTensor } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import type { AdapterLayout } from './adapter-layout.js'
import type { KvCache } from './kv-cache.js'
import type { KvOnDevice } from './kv-on-device.js'
import type { KvPlace } from './kv-shape.js'

/** One sequence of a step: its slot and its new tokens. */
export interface StepSequence extends KvPlace {
  /** At least one. */
  readonly ids: readonly number[]
  /** Tokens it has in its group's prompt and in its own tail; new tokens follow those. */
  readonly promptLength: number
  readonly tailLength: number
  /** Index into the batch's adapters; -1: none. */
  readonly adapter: number
}

/** New tokens of several sequences. A flat row is a new token's place when all are written one sequence after the other. */
export interface StepBatch {
  readonly sequences: readonly StepSequence[]
  /** Groups of sequences that share a prompt (G), and slots in each (R). */
  readonly groups: number
  readonly width: number
  /** Row g is the prompt of group g; null: no sequence has a cached prompt. */
  readonly prompts: KvCache | null
  /** Row g holds the tails of group g, one member per slot; null: all tails are empty. */
  readonly tails: KvCache | null
  /** Flat rows whose logits are wanted. */
  readonly logitRows: readonly number[]
  /** One per logit row. */
  readonly inverseTemperatures: readonly number[]
  /** Adapters present in the batch. */
  readonly adapters: readonly AdapterLayout[]
}

/** Number of new tokens. */
export function tokenCount(batch: StepBatch): number {
  return batch.sequences.reduce((sum, { ids }) => sum + ids.length, 0)
}

/** Largest number of new tokens of a sequence, T. */
export function longestSequence(batch: StepBatch): number {
  return maxOf(batch.sequences.map(({ ids }) => ids.length))
}

/** Columns of a cache as the graph sees them: those of one that holds nothing are zeros. */
function columnsOf(cache: KvCache | null, leastColumns: number): number {
  return Math.max(cache?.capacity ?? 0, leastColumns)
}

/**
 * All inputs of a step but adapters and cache.
 *
 * @param least columns of a cache (`leastColumns`)
 */
export function batchFeeds(config: DecoderConfig, batch: StepBatch, least: number): Record<string, HostTensor> {
  const { kvHeadCount: K, headSize: D, headCount: H } = config
  const { groups, width, sequences } = batch
  const perKey = H / K
  const slots = groups * K * width
  const T = longestSequence(batch)
  const N = tokenCount(batch)
  const P = columnsOf(batch.prompts, least)
  const C = columnsOf(batch.tails, least)
  const heads = perKey + 2
  const ids = new Int32Array(N)
  // 64-bit integers written as pairs of 32-bit ones: conversion to BigInt costs more than all the rest.
  const positions = new BigInt64Array(N * K * heads)
  const positionWords = new Int32Array(positions.buffer)
  const queryRows = new Int32Array(slots * T * perKey)
  const keyRows = new Int32Array(slots * T)
  const valueRows = new Int32Array(slots * T)
  const attendedRows = new Int32Array(N * H)
  let n = 0
  for (const { row, member, ids: own, promptLength, tailLength } of sequences) {
    const start = promptLength + tailLength
    for (let k = 0; k < K; k++) {
      const slot = (row * K + k) * width + member
      for (let t = 0; t < own.length; t++) {
        const headRow = ((n + t) * K + k) * heads
        for (let j = 0; j < perKey; j++) {
          queryRows[(slot * T + t) * perKey + j] = headRow + j
          attendedRows[(n + t) * H + k * perKey + j] = (slot * T + t) * perKey + j
        }
        keyRows[slot * T + t] = headRow + perKey
        valueRows[slot * T + t] = headRow + perKey + 1
        for (let j = 0; j <= perKey; j++) positionWords[2 * (headRow + j)] = start + t
      }
    }
    for (let t = 0; t < own.length; t++) ids[n + t] = own[t] ?? 0
    n += own.length
  }
  const int32 = (data: Int32Array, shape: readonly number[]): HostTensor => ({ dtype: 'int32', shape, data })
  return {
    [STEP_INPUTS.ids]: int32(ids, [N]),
    [STEP_INPUTS.logitRows]: int64Tensor(batch.logitRows),
    [STEP_INPUTS.inverseTemperatures]: float32Tensor(Float32Array.from(batch.inverseTemperatures), [
      batch.logitRows.length,
      1,
    ]),
    [ATTENTION_INPUTS.positions]: { dtype: 'int64', shape: [N * K * heads, 1], data: positions },
    [ATTENTION_INPUTS.queryRows]: int32(queryRows, [slots, T * perKey]),
    [ATTENTION_INPUTS.keyRows]: int32(keyRows, [slots, T]),
    [ATTENTION_INPUTS.valueRows]: int32(valueRows, [slots, T]),
    [ATTENTION_INPUTS.attendedRows]: int32(attendedRows, [N, H]),
    [ATTENTION_INPUTS.groupQueriesShape]: int64Tensor([groups * K, width * T * perKey, D]),
    [ATTENTION_INPUTS.slotScoresShape]: int64Tensor([slots, T * perKey, P]),
    [ATTENTION_INPUTS.groupWeightsShape]: int64Tensor([groups * K, width * T * perKey, P]),
    [ATTENTION_INPUTS.slotOutputsShape]: int64Tensor([slots, T * perKey, D]),
    [ATTENTION_INPUTS.keySizes]: int64Tensor([P, C, T]),
    [ATTENTION_INPUTS.keyMask]: keyMask(batch, { K, perKey, T, P, C, window: Number.POSITIVE_INFINITY }),
    ...(hasSlidingLayers(config)
      ? { [ATTENTION_INPUTS.slidingKeyMask]: keyMask(batch, { K, perKey, T, P, C, window: config.slidingWindow ?? 0 }) }
      : {}),
  }
}

/**
 * Keys and values: the caches' own memory, or zeros where nothing is cached.
 *
 * @param least columns of a cache (`leastColumns`)
 */
export function cacheFeeds(config: DecoderConfig, batch: StepBatch, least: number): Record<string, HostTensor> {
  const { layerCount, kvHeadCount, headSize } = config
  const feeds: Record<string, HostTensor> = {}
  const parts = [
    { part: 'prompt', cache: batch.prompts, heads: batch.groups * kvHeadCount },
    { part: 'tail', cache: batch.tails, heads: batch.groups * kvHeadCount * batch.width },
  ] as const
  for (const { part, cache, heads } of parts) {
    const empty = float32Tensor(new Float32Array(heads * least * headSize), [heads, least, headSize])
    const isEmpty = cache === null || cache.capacity === 0
    for (let layer = 0; layer < layerCount; layer++) {
      feeds[cacheInput(layer, part, 'keys')] = isEmpty ? empty : cache.tensor(layer, 0)
      feeds[cacheInput(layer, part, 'values')] = isEmpty ? empty : cache.tensor(layer, 1)
    }
  }
  return feeds
}

/** Those of `cacheFeeds` that a device has copies of: all but the zeros where nothing is cached. */
export async function residentFeeds(
  resident: KvOnDevice,
  batch: Pick<StepBatch, 'prompts' | 'tails'>,
): Promise<Record<string, DeviceTensor>> {
  const parts = (['prompt', 'tail'] as const).flatMap((part) => {
    const cache = part === 'prompt' ? batch.prompts : batch.tails
    return cache === null || cache.capacity === 0 ? [] : [{ part, cache }]
  })
  const tensors = await resident.tensorsOf(parts.map(({ cache }) => cache))
  const feeds: Record<string, DeviceTensor> = {}
  for (const [at, { part }] of parts.entries()) {
    for (const [side, tensor] of (tensors[at] ?? []).entries()) {
      feeds[cacheInput(side >> 1, part, side % 2 === 0 ? 'keys' : 'values')] = tensor
    }
  }
  return feeds
}

/**
 * What each new token may not look at: columns that hold nothing, later tokens of its own step, and tokens before its window.
 *
 * With one new token each, all queries of a slot see the same: one row per slot.
 */
function keyMask(
  batch: StepBatch,
  sizes: {
    readonly K: number
    readonly perKey: number
    readonly T: number
    readonly P: number
    readonly C: number
    /** Tokens a token sees, its own included. */
    readonly window: number
  },
): HostTensor {
  const { K, perKey, T, P, C, window } = sizes
  const queries = T === 1 ? 1 : T * perKey
  const columns = P + C + T
  const slots = batch.groups * K * batch.width
  const mask = new Float32Array(slots * queries * columns)
  for (const { row, member, promptLength, tailLength } of batch.sequences) {
    for (let k = 0; k < K; k++) {
      const slot = (row * K + k) * batch.width + member
      for (let query = 0; query < queries; query++) {
        const start = (slot * queries + query) * columns
        mask.fill(Number.NEGATIVE_INFINITY, start + promptLength, start + P)
        mask.fill(Number.NEGATIVE_INFINITY, start + P + tailLength, start + P + C)
        const own = queries === 1 ? 0 : Math.floor(query / perKey)
        mask.fill(Number.NEGATIVE_INFINITY, start + P + C + own + 1, start + columns)
        // everything before this position is out of the window
        const first = promptLength + tailLength + own - window + 1
        if (first <= 0) continue
        mask.fill(Number.NEGATIVE_INFINITY, start, start + Math.min(first, promptLength))
        const inTail = Math.min(Math.max(first - promptLength, 0), tailLength)
        mask.fill(Number.NEGATIVE_INFINITY, start + P, start + P + inTail)
        const inStep = Math.max(first - promptLength - tailLength, 0)
        mask.fill(Number.NEGATIVE_INFINITY, start + P + C, start + P + C + inStep)
      }
    }
  }
  return float32Tensor(mask, [slots, queries, columns])
}
