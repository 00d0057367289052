/**
 * Rows of tokens as the tensors a row graph takes: bias from segments, trained positions in chunks.
 *
 * Position t trains token t + 1 of the same segment. Everything per token of the next one (mask, advantage, weight, old
 * log-probability) is therefore read at t + 1 and laid out in the order of the trained positions.
 */
import { append } from '#base/util/lists.js'
import { HIDDEN } from '#numerics/graph/ops/attention.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import {
  type AttentionBlocks,
  attentionBlockRows,
  attentionBlocks,
  DENSE_ATTENTION_TOKENS,
  type TokenSegments,
} from '#training/rows/attention-blocks.js'
import type { RowSampling } from '#training/rows/row-sampling.js'

/** One row. All arrays have the row's length; padding has segment -1 and mask 0. */
export interface Row {
  readonly tokens: Int32Array
  /** Position of each token in its own sequence. */
  readonly positions: Int32Array
  /** Segment of each token. */
  readonly groupIds: Int32Array
  /** Parent of each token's segment; the segment's own id where it has none. */
  readonly parentIds: Int32Array
  /** 1 where the token is trained on. */
  readonly lossMask: Uint8Array
  /** What each position is trained to predict, where that is not the token behind it; then `lossMask` is not read. */
  readonly labels?: Int32Array
  /** How its trained tokens were drawn; absent: at temperature 1 among all. */
  readonly sampling?: RowSampling | null
}

/** One trained token: where it is predicted, where it stands, what it is. */
export interface TrainedToken {
  /** Flat index [B*T] of the position that predicts it. */
  readonly position: number
  readonly row: number
  /** Index of the token in its row. */
  readonly index: number
  readonly label: number
}

/** Rows made ready; `trained` is the order of all per-token inputs and outputs. */
export interface RowBatch {
  readonly trained: readonly TrainedToken[]
  /** Q*C, at least `trained.length`; the rest is padding. */
  readonly paddedCount: number
  /** Inputs of every row graph but the adapters. */
  readonly feeds: Readonly<Record<string, HostTensor>>
  /** Padded length T. */
  readonly length: number
  /** Position of each token in its own sequence [B*T]. */
  readonly positions: Int32Array
  /** Those of all tokens [B*T], numbered through the batch. */
  readonly segments: TokenSegments
}

/** Most trained positions whose logits exist at once: 50 MB for a vocabulary of 49,152. */
export const DEFAULT_CHUNK = 256
/** Segment of padding, whose tokens see each other and nothing else. */
const PADDING_GROUP = -1

/** How rows are laid out. */
export interface RowBatchOptions {
  /** T; default the longest row. */
  readonly length?: number
  /** Most trained positions whose logits exist at once; default 256. More is faster where the vocabulary is small. */
  readonly chunk?: number
}

/**
 * Lays out rows for a row graph. Shorter rows are padded at the right to `length`.
 *
 * @param rows at least one; at least one token must train
 * @throws {RangeError} if a row is longer than `length`
 */
export function toRowBatch(rows: readonly Row[], options: RowBatchOptions = {}): RowBatch {
  const length = options.length ?? rows.reduce((longest, row) => Math.max(longest, row.tokens.length), 1)
  const count = rows.length
  const tokens = new BigInt64Array(count * length)
  const positions = new BigInt64Array(count * length)
  const isDense = length <= DENSE_ATTENTION_TOKENS
  const bias = isDense ? new Float32Array(count * length * length) : null
  const groupIds = new Int32Array(count * length)
  const parentIds = new Int32Array(count * length)
  const trained: TrainedToken[] = []
  rows.forEach((row, r) => {
    if (row.tokens.length > length) throw new RangeError(`a row of ${row.tokens.length} tokens does not fit ${length}`)
    for (let t = 0; t < row.tokens.length; t++) {
      tokens[r * length + t] = BigInt(row.tokens[t] as number)
      positions[r * length + t] = BigInt(row.positions[t] as number)
    }
    // Segments of different rows are different segments of the batch; padding sees padding of its row.
    const numbered = (id = PADDING_GROUP): number => (id < 0 ? PADDING_GROUP - r : id * count + r)
    for (let t = 0; t < length; t++) {
      groupIds[r * length + t] = numbered(row.groupIds[t])
      parentIds[r * length + t] = numbered(row.parentIds[t])
    }
    if (bias !== null) fillBias(bias.subarray(r * length * length, (r + 1) * length * length), row, length)
    append(trained, trainedTokens(row, r, length))
  })
  const { chunks, size } = chunking(trained.length, options.chunk ?? DEFAULT_CHUNK)
  const padded = chunks * size
  const rowOfPosition = new BigInt64Array(count * length).fill(BigInt(padded))
  const labelPositions = new BigInt64Array(padded)
  const labels = new BigInt64Array(padded)
  trained.forEach((token, n) => {
    labelPositions[n] = BigInt(token.position)
    labels[n] = BigInt(token.label)
    rowOfPosition[token.position] = BigInt(n)
  })
  const int64 = (data: BigInt64Array, shape: readonly number[]): HostTensor => ({ dtype: 'int64', shape, data })
  return {
    trained,
    paddedCount: padded,
    length,
    positions: Int32Array.from(positions, Number),
    segments: { groupIds, parentIds },
    feeds: {
      tokens: int64(tokens, [count, length]),
      positions: int64(positions, [count, length]),
      ...(bias === null ? {} : { bias: float32Tensor(bias, [count, length, length]) }),
      label_positions: int64(labelPositions, [chunks, size]),
      labels: int64(labels, [chunks, size]),
      row_of_position: int64(rowOfPosition, [count * length]),
      ...samplingFeeds(rows, trained, { labels, shape: [chunks, size] }),
    },
  }
}

/** Temperatures of the trained tokens, and, where a part of the vocabulary could be drawn, which. Sets are as wide as the widest of the batch. */
function samplingFeeds(
  rows: readonly Row[],
  trained: readonly TrainedToken[],
  { labels, shape }: { readonly labels: BigInt64Array; readonly shape: readonly number[] },
): Record<string, HostTensor> {
  const heat = new Float32Array(labels.length).fill(1)
  const isLimited = new Uint8Array(labels.length)
  let width = 0
  trained.forEach((token, n) => {
    const { sampling } = rowOf(rows, token)
    if (sampling == null) return
    heat[n] = 1 / (sampling.temperatures[token.index] ?? 1)
    const kept = sampling.kept.get(token.index)
    if (kept === undefined) return
    isLimited[n] = 1
    width = Math.max(width, kept.length)
  })
  const heatFeed = { inverse_temperature: float32Tensor(heat, shape) }
  if (width === 0) return heatFeed
  const ids = new BigInt64Array(labels.length * width)
  for (const [n, label] of labels.entries()) ids.fill(label, n * width, (n + 1) * width)
  trained.forEach((token, n) => {
    const kept = rowOf(rows, token).sampling?.kept.get(token.index) ?? []
    for (let k = 0; k < kept.length; k += 1) ids[n * width + k] = BigInt(kept[k] as number)
  })
  return { ...heatFeed, ...keptFeeds(ids, isLimited, shape) }
}

function keptFeeds(ids: BigInt64Array, isLimited: Uint8Array, shape: readonly number[]): Record<string, HostTensor> {
  return {
    kept_ids: { dtype: 'int64', shape: [...shape, ids.length / isLimited.length], data: ids },
    is_limited: { dtype: 'bool', shape, data: isLimited },
  }
}

/** What a graph that knows of kept tokens is told of a batch without any. */
export function nothingKept({ feeds }: RowBatch): Record<string, HostTensor> {
  const labels = feeds['labels']
  if (labels?.dtype !== 'int64') throw new Error('a batch has labels')
  return keptFeeds(labels.data, new Uint8Array(labels.data.length), labels.shape)
}

/** Who sees whom in rows that came without it because they are long: what the dense bias of a batch is otherwise, [B, T, T]. */
export function denseBias(batch: RowBatch): HostTensor<'float32'> {
  const { length, segments } = batch
  const count = segments.groupIds.length / length
  const isHidden = isHiddenBy(batch)
  const data = new Float32Array(count * length * length)
  for (let query = 0; query < count * length; query += 1) {
    const first = Math.floor(query / length) * length
    for (let key = 0; key < length; key += 1) {
      if (isHidden(query, first + key)) data[query * length + key] = HIDDEN
    }
  }
  return float32Tensor(data, [count, length, length])
}

/** How the inputs of blocked attention are made. */
export interface BlockOptions {
  /** Most queries of a block; default what suits the batch. */
  readonly most?: number | undefined
  /** Positions that layers with a window see, the query's own included; absent: there are none. */
  readonly window?: number | undefined
}

/** What a graph whose attention goes in blocks takes besides. */
export function blockFeeds(batch: RowBatch, options: BlockOptions = {}): Record<string, HostTensor> {
  const { groupIds } = batch.segments
  const blocks = attentionBlocks(batch.segments, options.most ?? attentionBlockRows(groupIds.length))
  const { starts, rows, keys } = blocks
  const places = new BigInt64Array(starts.length * groupIds.length)
  const bounds = [0]
  keys.forEach((listed, block) => {
    const place = places.subarray(block * groupIds.length, (block + 1) * groupIds.length).fill(BigInt(listed.length))
    listed.forEach((key, at) => {
      place[key] = BigInt(at)
    })
    bounds.push((bounds[block] ?? 0) + listed.length)
  })
  const int64 = (values: readonly number[]): HostTensor => ({
    dtype: 'int64',
    shape: [values.length],
    data: BigInt64Array.from(values, BigInt),
  })
  const hidden = (isHidden: PairTest): HostTensor<'uint8'> => {
    const data = blockPairs(blocks, groupIds.length, isHidden)
    return { dtype: 'uint8', shape: [data.length], data }
  }
  const { window } = options
  return {
    block_starts: int64(starts),
    block_half_rows: int64(Array.from({ length: rows / 2 }, (_, row) => row)),
    key_indices: int64(keys.flatMap((listed) => [...listed])),
    key_bounds: int64(bounds),
    key_places: { dtype: 'int64', shape: [starts.length, groupIds.length], data: places },
    block_hidden: hidden(isHiddenBy(batch)),
    block_hidden_bounds: int64(bounds.map((bound) => bound * rows)),
    ...(window === undefined ? {} : { block_hidden_sliding: hidden(isHiddenBy(batch, window)) }),
  }
}

/** Of a query and a key, both as indices of tokens. */
type PairTest = (query: number, key: number) => boolean

/** 1 where the test holds: [rows, keys] of each block behind that of the one before; queries behind the last token read as that. */
function blockPairs({ starts, rows, keys }: AttentionBlocks, count: number, test: PairTest): Uint8Array {
  const data = new Uint8Array(keys.reduce((sum, { length }) => sum + rows * length, 0))
  let at = 0
  keys.forEach((listed, block) => {
    for (let row = 0; row < rows; row++) {
      const query = Math.min((starts[block] as number) + row, count - 1)
      for (const key of listed) data[at++] = test(query, key) ? 1 : 0
    }
  })
  return data
}

/** All but the tokens of a query's segment and its parent that are not later, as in `fillBias`, nor further behind than the window. */
function isHiddenBy(
  { segments, positions }: Pick<RowBatch, 'segments' | 'positions'>,
  window = Number.POSITIVE_INFINITY,
): PairTest {
  const { groupIds, parentIds } = segments
  return (query, key) => {
    const group = groupIds[key]
    if (key > query || (group !== groupIds[query] && group !== parentIds[query])) return true
    return (positions[query] as number) - (positions[key] as number) >= window
  }
}

/**
 * Per-token numbers of the trained tokens as a padded tensor [N].
 *
 * @param padding value behind the last token; default 0
 */
export function perToken(
  batch: RowBatch,
  read: (token: TrainedToken, n: number) => number,
  padding = 0,
): HostTensor<'float32'> {
  const data = new Float32Array(batch.paddedCount).fill(padding)
  batch.trained.forEach((token, n) => {
    data[n] = read(token, n)
  })
  return float32Tensor(data, [batch.paddedCount])
}

/** A plain sequence whose every position is trained to predict a label of its own. */
export function labelledRow(tokens: Int32Array, labels: Int32Array): Row {
  return { ...sequenceRow(tokens, new Uint8Array(tokens.length)), labels }
}

/** A plain sequence as a row: one segment, causal. */
export function sequenceRow(tokens: Int32Array, lossMask: Uint8Array): Row {
  return {
    tokens,
    positions: Int32Array.from(tokens, (_, t) => t),
    groupIds: new Int32Array(tokens.length),
    parentIds: new Int32Array(tokens.length),
    lossMask,
  }
}

function trainedTokens(row: Row, r: number, length: number): TrainedToken[] {
  if (row.labels !== undefined) {
    return Array.from(row.labels, (label, t) => ({ position: r * length + t, row: r, index: t + 1, label }))
  }
  const result: TrainedToken[] = []
  for (let t = 0; t + 1 < row.tokens.length; t++) {
    if (row.lossMask[t + 1] === 0 || row.groupIds[t] !== row.groupIds[t + 1]) continue
    result.push({ position: r * length + t, row: r, index: t + 1, label: row.tokens[t + 1] as number })
  }
  return result
}

/** A token sees the tokens of its segment and of the parent segment that are not later in the row. */
function fillBias(bias: Float32Array, row: Row, length: number): void {
  bias.fill(HIDDEN)
  const { groupIds, parentIds } = row
  for (let q = 0; q < length; q++) {
    // Padding beyond the row sees itself, so that its softmax is defined.
    bias[q * length + q] = 0
    if (q >= groupIds.length) continue
    const group = groupIds[q]
    const parent = parentIds[q]
    for (let k = 0; k < q; k++) {
      if (groupIds[k] === group || groupIds[k] === parent) bias[q * length + k] = 0
    }
  }
}

/** Chunks of equal size, as few as the limit allows. */
function chunking(count: number, largest: number): { readonly chunks: number; readonly size: number } {
  const chunks = Math.max(1, Math.ceil(count / largest))
  return { chunks, size: Math.max(1, Math.ceil(count / chunks)) }
}

/** The row a trained token stands in. @param rows those the batch was made of */
export function rowOf<R extends Row>(rows: readonly R[], { row }: TrainedToken): R {
  const found = rows[row]
  if (found === undefined) throw new RangeError(`the batch has no row ${row}`)
  return found
}
