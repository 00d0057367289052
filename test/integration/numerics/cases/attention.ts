/**
 * Cases of attention: whole rows by a bias, and blocks of queries by segments and windows.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { attentionBlocks, rowAttention } from '#numerics/graph/ops/attention.js'
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
      inputs: { ...heads, ...ids() },
      symbols: SHAPES,
      build: (g, v) => blocked(g, v, { most, windowSize: null }),
    })
  }
  opCase('RowAttention', {
    about: 'blocks with a window',
    inputs: { ...heads, ...ids() },
    symbols: SHAPES,
    build: (g, v) => blocked(g, v, { most: 3, windowSize: 2 }),
  })
}

function blocked(
  g: GraphBuilder,
  v: Readonly<Record<string, Value>>,
  { most, windowSize }: { readonly most: number; readonly windowSize: number | null },
): Value {
  const window = windowSize === null ? null : { positions: v['positions']!, size: windowSize }
  const blocks = attentionBlocks(g, 'T', most)
  const mask = { kind: 'blocked', ...blocks, groups: v['groups']!, parents: v['parents']!, window } as const
  return rowAttention(g, headsOf(v), mask, { scale: 0.5 })
}

function headsOf(v: Readonly<Record<string, Value>>) {
  return { query: v['query']!, key: v['key']!, value: v['value']! }
}

function ids() {
  return {
    groups: reference('int32', [B, T], GROUPS),
    parents: reference('int32', [B, T], PARENTS),
    positions: reference('int64', [B, T], POSITIONS),
  }
}
