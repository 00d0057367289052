/**
 * Sequences packed into rows, with prompts shared inside a trajectory group stored once.
 *
 * A row is a list of segments. Every token carries `groupIds` (its segment), `parentIds` (the segment whose tokens it also
 * sees; its own for a segment without parent) and `positions` (its position in its own unpacked sequence). Query q sees key k
 * if k <= q and (groupIds[k] === groupIds[q] or groupIds[k] === parentIds[q]); so each sequence sees exactly its own history.
 *
 * Alignment: all arrays are in token order, entry t describes token t. Nothing is shifted here: a trained token t is predicted
 * at t - 1, which always lies in the same segment. `trainTargets` lists exactly these pairs.
 *
 * Packing: best-fit in decreasing size. How sequences are shared out among rows changes no gradient: an optimizer step adds up
 * its rows (`optimizer-steps.ts` says which sequences those are).
 */
import { copySampling, plainSampling, type RowSampling } from './row-sampling.js'
import { clusterByPrompt } from './shared-prompts.js'
import type { TrainingSequence } from './tokenize.js'

/** Where a sequence lies in its row: tokens [prefixStart, prefixStart + prefixLength) and then [start, end). */
export interface PackedSequence {
  readonly groupIndex: number
  readonly trajectoryIndex: number
  /** Value of `groupIds` in [start, end). */
  readonly segmentId: number
  readonly prefixStart: number
  readonly prefixLength: number
  readonly start: number
  readonly end: number
}

/** One row; arrays have length T. Padding at the end: pad token, position 0, segment -1, mask 0, weight 0, logprob NaN. */
export interface PackedRow {
  readonly tokens: Int32Array
  readonly positions: Int32Array
  readonly groupIds: Int32Array
  readonly parentIds: Int32Array
  readonly lossMask: Uint8Array
  /** Sampler's log-probability of the token; NaN where unknown. */
  readonly logprobs: Float32Array
  /** How its tokens were drawn; absent or null: all at temperature 1 from the whole vocabulary. */
  readonly sampling?: RowSampling | null
  readonly advantages: Float32Array
  readonly weights: Float32Array
  readonly sequences: readonly PackedSequence[]
  /** Tokens before the padding. */
  readonly usedLength: number
  readonly trainableTokenCount: number
}

/** The trained tokens of a row, as a loss over selected positions needs them; all arrays have length N. */
export interface TrainTargets {
  /** Index in the row of the token that predicts (one before the label). */
  readonly rowIndices: Int32Array
  /** Token ids to predict. */
  readonly labels: Int32Array
  readonly logprobs: Float32Array
  readonly advantages: Float32Array
  readonly weights: Float32Array
  /** Segment of each label: sequence-level ratios are means over equal values. */
  readonly segmentIds: Int32Array
}

/** Options of `packRows`. */
export interface PackOptions {
  /** Most tokens in a row; every sequence must fit. */
  readonly rowLength: number
  /** Token id written into padding: the end-of-sequence id. */
  readonly padTokenId: number
  /** A row's arrays are as long as its tokens rounded up to this, at most `rowLength`. */
  readonly padMultiple: number
}

/** Sequences that are placed together: a prefix stored once and what follows it in each. */
interface Unit {
  readonly sequences: readonly TrainingSequence[]
  readonly prefixLength: number
  readonly size: number
}

/**
 * Packs sequences into rows.
 *
 * @param sequences with final advantages and weights, each at most `rowLength` long; prompts are shared between sequences of
 *   equal `groupIndex` only
 * @returns rows in decreasing order of their largest part; none for no sequences
 * @throws {RangeError} if a sequence is longer than a row: callers drop those first
 */
export function packRows(sequences: readonly TrainingSequence[], options: PackOptions): PackedRow[] {
  const units = groupsOf(sequences).flatMap((group) => toUnits(group, options.rowLength))
  const bins = bestFitDecreasing(units, (unit) => unit.size, options.rowLength)
  return bins.map((bin) => buildRow(bin, options))
}

/** Lists the trained tokens of a row with the position that predicts each. */
export function trainTargets(row: PackedRow): TrainTargets {
  const trained = Int32Array.from(row.lossMask.keys()).filter((t) => row.lossMask[t] === 1)
  return {
    rowIndices: trained.map((t) => t - 1),
    labels: trained.map((t) => row.tokens[t] ?? 0),
    logprobs: Float32Array.from(trained, (t) => row.logprobs[t] ?? Number.NaN),
    advantages: Float32Array.from(trained, (t) => row.advantages[t] ?? 0),
    weights: Float32Array.from(trained, (t) => row.weights[t] ?? 0),
    segmentIds: trained.map((t) => row.groupIds[t] ?? -1),
  }
}

/** The attention rule: whether the token at `query` sees the token at `key`. */
export function isVisible(row: Pick<PackedRow, 'groupIds' | 'parentIds'>, query: number, key: number): boolean {
  return key <= query && (row.groupIds[key] === row.groupIds[query] || row.groupIds[key] === row.parentIds[query])
}

function groupsOf(sequences: readonly TrainingSequence[]): TrainingSequence[][] {
  const groups = new Map<number, TrainingSequence[]>()
  for (const sequence of sequences) {
    const group = groups.get(sequence.groupIndex)
    if (group === undefined) groups.set(sequence.groupIndex, [sequence])
    else group.push(sequence)
  }
  return [...groups.values()]
}

/** Clusters of one group; a cluster too big for a row is split, and its prefix repeated in each part. */
function toUnits(group: readonly TrainingSequence[], rowLength: number): Unit[] {
  return clusterByPrompt(group).flatMap(({ members, prefixLength }) => {
    const sequences = members.flatMap((member) => group[member] ?? [])
    if (prefixLength === 0) return sequences.map((sequence) => toUnit([sequence], 0))
    const whole = toUnit(sequences, prefixLength)
    if (whole.size <= rowLength) return [whole]
    const parts = bestFitDecreasing(
      sequences,
      (sequence) => sequence.tokenIds.length - prefixLength,
      rowLength - prefixLength,
    )
    return parts.map((part) => toUnit(part, prefixLength))
  })
}

function toUnit(sequences: readonly TrainingSequence[], prefixLength: number): Unit {
  const shared = sequences.length > 1 ? prefixLength : 0
  return {
    sequences,
    prefixLength: shared,
    size: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length - shared, shared),
  }
}

/** Items in decreasing size, each into a bin with the least room that still takes it. */
function bestFitDecreasing<Item>(items: readonly Item[], sizeOf: (item: Item) => number, capacity: number): Item[][] {
  const bins: Item[][] = []
  const binsByRoom: Item[][][] = Array.from({ length: capacity + 1 }, () => [])
  const order = items
    .map((item, index) => ({ item, index, size: sizeOf(item) }))
    .sort((a, b) => b.size - a.size || a.index - b.index)
  for (const { item, size } of order) {
    if (size > capacity) throw new RangeError(`packRows: an item of ${size} tokens does not fit into ${capacity}`)
    let room = size
    while (room < capacity && binsByRoom[room]?.length === 0) room += 1
    let bin = binsByRoom[room]?.pop()
    if (bin === undefined) {
      bin = []
      bins.push(bin)
    }
    bin.push(item)
    binsByRoom[room - size]?.push(bin)
  }
  return bins
}

function buildRow(units: readonly Unit[], options: PackOptions): PackedRow {
  const usedLength = units.reduce((sum, unit) => sum + unit.size, 0)
  const length = Math.min(Math.ceil(usedLength / options.padMultiple) * options.padMultiple, options.rowLength)
  const row = {
    tokens: new Int32Array(length).fill(options.padTokenId),
    positions: new Int32Array(length),
    groupIds: new Int32Array(length).fill(-1),
    parentIds: new Int32Array(length).fill(-1),
    lossMask: new Uint8Array(length),
    logprobs: new Float32Array(length).fill(Number.NaN),
    advantages: new Float32Array(length),
    weights: new Float32Array(length),
  }
  const isPlain = units.every(({ sequences }) => sequences.every(({ sampling }) => sampling == null))
  const sampling = isPlain ? null : plainSampling(length)
  const packed: PackedSequence[] = []
  let cursor = 0
  let segmentId = 0
  for (const unit of units) {
    const prefixStart = cursor
    const rootId = segmentId
    const prefixOwner = unit.sequences[0]
    if (unit.prefixLength > 0 && prefixOwner !== undefined) write(prefixOwner, 0, unit.prefixLength, rootId)
    for (const sequence of unit.sequences) {
      const start = cursor
      const ownId = segmentId
      write(sequence, unit.prefixLength, sequence.tokenIds.length, unit.prefixLength > 0 ? rootId : ownId)
      const { groupIndex, trajectoryIndex } = sequence
      packed.push({
        groupIndex,
        trajectoryIndex,
        segmentId: ownId,
        prefixStart,
        prefixLength: unit.prefixLength,
        start,
        end: cursor,
      })
    }
  }
  const trainableTokenCount = row.lossMask.reduce((sum, bit) => sum + bit, 0)
  return { ...row, sampling, sequences: packed, usedLength, trainableTokenCount }

  /** Appends tokens [from, to) of a sequence as a segment. */
  function write(sequence: TrainingSequence, from: number, to: number, parentId: number): void {
    const end = cursor + to - from
    row.tokens.set(sequence.tokenIds.subarray(from, to), cursor)
    row.lossMask.set(sequence.lossMask.subarray(from, to), cursor)
    row.logprobs.set(sequence.logprobs.subarray(from, to), cursor)
    if (sampling !== null && sequence.sampling != null) {
      copySampling(sampling, sequence.sampling, { from, to, at: cursor })
    }
    row.groupIds.fill(segmentId, cursor, end)
    row.parentIds.fill(parentId, cursor, end)
    for (let t = from; t < to; t += 1) {
      const at = cursor + t - from
      row.positions[at] = t
      if (sequence.lossMask[t] !== 1) continue
      row.advantages[at] = sequence.tokenAdvantages?.[t] ?? sequence.advantage
      row.weights[at] = sequence.weight
    }
    cursor = end
    segmentId += 1
  }
}
