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
  groups: ['B', 'T'],
  parents: ['B', 'T'],
  positions: ['B', 'T'],
  starts: ['Blocks'],
  offsets: ['BlockRows'],
  keyIndices: ['Listed'],
  keyBounds: ['Bounds'],
  keyPlaces: ['Blocks', 'T'],
}
/** A prompt that two answers share, and a row of one sequence with padding. */
const GROUPS = [0, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0, 0, -1, -1]
const PARENTS = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1]
const POSITIONS = [0, 1, 2, 3, 4, 3, 4, 0, 1, 2, 3, 4, 0, 1]

/** Registers the cases. */
export function attentionCases(): void {
  opCase('RowAttention', {
    about: 'whole, by a bias',
    inputs: { ...heads, bias: normals([B, T, T], { seed: 'bias' }) },
    symbols: { ...SHAPES, bias: ['B', 'T', 'T'] },
    gradients: ['query', 'key', 'value'],
    build: (g, v) => rowAttention(g, headsOf(v), { kind: 'whole', bias: v['bias']! }, { scale: 0.5 }),
  })
  for (const most of [1, 3, 4, 100]) {
    opCase('RowAttention', {
      about: `blocks of at most ${most} queries`,
      inputs: { ...heads, ...ids(most) },
      symbols: SHAPES,
      build: (g, v) => blocked(g, v, null),
    })
  }
  opCase('RowAttention', {
    about: 'blocks with a window',
    inputs: { ...heads, ...ids(3) },
    symbols: SHAPES,
    build: (g, v) => blocked(g, v, 2),
  })
}

function blocked(g: GraphBuilder, v: Readonly<Record<string, Value>>, windowSize: number | null): Value {
  const window = windowSize === null ? null : { positions: v['positions']!, size: windowSize }
  const mask = {
    kind: 'blocked',
    starts: v['starts']!,
    offsets: v['offsets']!,
    keyIndices: v['keyIndices']!,
    keyBounds: v['keyBounds']!,
    keyPlaces: v['keyPlaces']!,
    groups: v['groups']!,
    parents: v['parents']!,
    window,
  } as const
  return rowAttention(g, headsOf(v), mask, { scale: 0.5 })
}

function headsOf(v: Readonly<Record<string, Value>>) {
  return { query: v['query']!, key: v['key']!, value: v['value']! }
}

/** Both rows of the batch have the same blocks, each with every key up to its last query. */
function ids(most: number) {
  const count = Math.ceil(T / most)
  const rows = Math.ceil(T / count)
  const ends = Array.from({ length: count }, (_, block) => Math.min(T, (block + 1) * rows))
  const upTo = (end: number) => Array.from({ length: end }, (_, key) => key)
  const int64 = (shape: number[], values: number[]) => reference('int64', shape, values)
  const listed = ends.flatMap(upTo)
  return {
    groups: reference('int32', [B, T], GROUPS),
    parents: reference('int32', [B, T], PARENTS),
    positions: int64([B, T], POSITIONS),
    starts: int64(
      [count],
      ends.map((_, block) => block * rows),
    ),
    offsets: int64([rows], upTo(rows)),
    keyIndices: int64([listed.length], listed),
    keyBounds: int64(
      [count + 1],
      [0, ...ends.map((_, block) => ends.slice(0, block + 1).reduce((sum, end) => sum + end, 0))],
    ),
    keyPlaces: int64(
      [count, T],
      ends.flatMap((end) => Array.from({ length: T }, (_, key) => Math.min(key, end))),
    ),
  }
}
