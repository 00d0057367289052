/**
 * Cases of attention: whole rows by a bias, and blocks of queries by segments and windows.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { rowAttention } from '#numerics/graph/ops/attention.js'
import { normals, opCase } from '../../../support/reference/op-case.js'
import { reference } from '../../../support/reference/reference-tensor.js'

const [B, K, STACKED, T, D] = [2, 2, 3, 7, 4]
const heads = {
  query: normals([B, K, STACKED, T, D], { seed: 'query' }),
  key: normals([B, K, T, D], { seed: 'key' }),
  value: normals([B, K, T, D], { seed: 'value' }),
}
const SHAPES = {
  query: ['B', K, STACKED, 'T', D],
  key: ['B', K, 'T', D],
  value: ['B', K, 'T', D],
  starts: ['Blocks'],
  halfRows: ['HalfRows'],
  keyIndices: ['Listed'],
  keyBounds: ['Bounds'],
  keyPlaces: ['Blocks', 'T'],
  hidden: ['Pairs'],
  hiddenBounds: ['Bounds'],
}
/** A prompt that two answers share, and a row of one sequence with padding. */
const GROUPS = [0, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0, 0, -1, -1]
const PARENTS = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1]
/** An odd number of key heads, whose products go in two parts, and one. */
const KEY_HEADS = [3, 1]

/** Registers the cases. */
export function attentionCases(): void {
  opCase('RowAttention', {
    about: 'whole, by a bias',
    inputs: { ...heads, bias: normals([B, T, T], { seed: 'bias' }) },
    symbols: { ...SHAPES, bias: ['B', 'T', 'T'] },
    gradients: ['query', 'key', 'value'],
    build: (g, v) => rowAttention(g, headsOf(v), { kind: 'whole', bias: v['bias']! }, { scale: 0.5 }),
  })
  for (const most of [2, 4, 100]) {
    opCase('RowAttention', {
      about: `blocks of at most ${most} queries`,
      inputs: { ...heads, ...ids(most) },
      symbols: SHAPES,
      gradients: ['query', 'key', 'value'],
      build: blocked,
    })
  }
  for (const keyHeads of KEY_HEADS) {
    const query = normals([B, keyHeads, STACKED, T, D], { seed: 'query' })
    const [key, value] = ['key', 'value'].map((seed) => normals([B, keyHeads, T, D], { seed }))
    opCase('RowAttention', {
      about: `blocks with ${keyHeads} key heads`,
      inputs: { ...ids(4), query, key: key!, value: value! },
      symbols: {
        ...SHAPES,
        query: ['B', keyHeads, STACKED, 'T', D],
        key: ['B', keyHeads, 'T', D],
        value: ['B', keyHeads, 'T', D],
      },
      gradients: ['query', 'key', 'value'],
      build: blocked,
    })
  }
}

function blocked(g: GraphBuilder, v: Readonly<Record<string, Value>>): Value {
  const mask = {
    kind: 'blocked',
    starts: v['starts']!,
    halfRows: v['halfRows']!,
    keyIndices: v['keyIndices']!,
    keyBounds: v['keyBounds']!,
    keyPlaces: v['keyPlaces']!,
    hidden: v['hidden']!,
    hiddenBounds: v['hiddenBounds']!,
  } as const
  return rowAttention(g, headsOf(v), mask, { scale: 0.5 })
}

function headsOf(v: Readonly<Record<string, Value>>) {
  return { query: v['query']!, key: v['key']!, value: v['value']! }
}

/** Both rows of the batch have the same blocks, each with every key up to its last query. */
function ids(most: number) {
  const rows = 2 * Math.ceil(T / Math.ceil(T / most) / 2)
  const count = Math.ceil(T / rows)
  const ends = Array.from({ length: count }, (_, block) => Math.min(T, (block + 1) * rows))
  const upTo = (end: number) => Array.from({ length: end }, (_, key) => key)
  const int64 = (shape: number[], values: number[]) => reference('int64', shape, values)
  const listed = ends.flatMap(upTo)
  const isSeen = (row: number, query: number, key: number) => {
    const [group, own] = [GROUPS[row * T + key], row * T + query]
    return key <= query && (group === GROUPS[own] || group === PARENTS[own])
  }
  const hidden = ends.flatMap((end, block) =>
    Array.from({ length: B }, (_, row) => row).flatMap((row) =>
      upTo(rows)
        .map((at) => Math.min(block * rows + at, T - 1))
        .flatMap((query) => upTo(end).map((key) => (isSeen(row, query, key) ? 0 : 1))),
    ),
  )
  const bounds = [0, ...ends.map((_, block) => ends.slice(0, block + 1).reduce((sum, end) => sum + end, 0))]
  return {
    starts: int64(
      [count],
      ends.map((_, block) => block * rows),
    ),
    halfRows: int64([rows / 2], upTo(rows / 2)),
    keyIndices: int64([listed.length], listed),
    keyBounds: int64([count + 1], bounds),
    keyPlaces: int64(
      [count, T],
      ends.flatMap((end) => Array.from({ length: T }, (_, key) => Math.min(key, end))),
    ),
    hidden: reference('uint8', [hidden.length], hidden),
    hiddenBounds: int64(
      [count + 1],
      bounds.map((bound) => B * rows * bound),
    ),
  }
}
