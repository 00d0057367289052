/**
 * Which sequences make one optimizer step: those that ART's packing would put into one row.
 *
 * How many updates a call makes is part of the training's meaning, so it must not follow from the shape of the rows that suit
 * a machine. ART (OpenPipe/ART, `prefix_tree_pack`, 2026) packs by best fit: groups in decreasing size of their largest
 * sequence, their sequences in order, each into the row it fills best, where a prompt of at least 64 tokens that a row holds
 * already costs nothing. The same is done here, on lengths only; rows are built from each step's sequences by `pack.ts`.
 * Difference: one sequence is never refused, a longer one makes a step of its own (callers drop what ART would drop).
 */
import { createRng } from '#base/util/rng.js'
import type { TrainingSequence } from './tokenize.js'

/** Shorter common prompts are stored once per sequence in ART's rows. */
const MIN_SHARED_LENGTH = 64
/** Automatic rows of ART are a multiple of this many tokens. */
const STEP_MULTIPLE = 2048

/** A part of a sequence: shared with others when it has the same id there. */
interface Segment {
  readonly id: number
  readonly length: number
}

/** Tokens that a step holds at most. */
export interface StepLengthOptions {
  /** Tokens of an optimizer step as asked for, whatever the length of sequences; null for none. */
  readonly tokensPerStep: number | null
  /** ART's row length as asked for; null for automatic. */
  readonly packedSequenceLength: number | null
  /** The model's longest sequence. */
  readonly contextLength: number
}

/**
 * Most tokens one optimizer step covers.
 *
 * @param lengths of the sequences that are trained, in tokens
 */
export function stepLengthFor(lengths: readonly number[], options: StepLengthOptions): number {
  const { tokensPerStep, packedSequenceLength, contextLength } = options
  if (tokensPerStep !== null) return tokensPerStep
  if (packedSequenceLength !== null) return packedSequenceLength
  const longest = lengths.reduce((max, length) => Math.max(max, length), 1)
  return Math.min(Math.ceil(longest / STEP_MULTIPLE) * STEP_MULTIPLE, contextLength)
}

/**
 * Partitions sequences into optimizer steps.
 *
 * @param options.stepLength most tokens of a step; a longer sequence makes a step of its own
 * @param options.seed seeds the order of steps
 * @returns every sequence exactly once; steps in training order
 */
export function partitionSteps<Sequence extends TrainingSequence>(
  sequences: readonly Sequence[],
  { stepLength, seed }: { readonly stepLength: number; readonly seed: string | number },
): Sequence[][] {
  const paths = sharedPaths(sequences, shareableLengths(sequences))
  const bins = new Bins(stepLength)
  for (const index of placementOrder(sequences)) bins.place(index, paths[index] ?? [])
  const steps = bins.members().map((members) => members.flatMap((index) => sequences[index] ?? []))
  shuffle(steps, `rows:${seed}`)
  return steps
}

/** Groups in decreasing length of their longest sequence, the sequences of a group in order. */
function placementOrder(sequences: readonly TrainingSequence[]): number[] {
  const groups = new Map<number, { longest: number; members: number[] }>()
  sequences.forEach(({ groupIndex, tokenIds }, index) => {
    const group = groups.get(groupIndex) ?? { longest: 0, members: [] }
    group.longest = Math.max(group.longest, tokenIds.length)
    group.members.push(index)
    groups.set(groupIndex, group)
  })
  return [...groups.values()].sort((a, b) => b.longest - a.longest).flatMap(({ members }) => members)
}

/**
 * How many leading tokens of each sequence others may share: the common start of its group, ending one token before the
 * first that trains, because that token predicts it.
 */
function shareableLengths(sequences: readonly TrainingSequence[]): number[] {
  const common = new Map<number, { readonly ids: Int32Array; length: number }>()
  for (const { groupIndex, tokenIds, lossMask } of sequences) {
    const known = common.get(groupIndex)
    const first = lossMask.indexOf(1)
    const untrained = first === -1 ? tokenIds.length : first
    if (known === undefined) common.set(groupIndex, { ids: tokenIds, length: untrained })
    else {
      let length = 0
      while (length < Math.min(known.length, untrained) && known.ids[length] === tokenIds[length]) length += 1
      known.length = length
    }
  }
  return sequences.map(({ groupIndex }) => Math.max(0, (common.get(groupIndex)?.length ?? 0) - 1))
}

/**
 * Each sequence as shared segments and a tail of its own: common starts of at least `MIN_SHARED_LENGTH` tokens become
 * segments, then the rest is divided again. Walks a radix tree with a stack, so that depth has no limit.
 */
function sharedPaths(sequences: readonly TrainingSequence[], shareable: readonly number[]): Segment[][] {
  const idsOf = (index: number): Int32Array => sequences[index]?.tokenIds ?? new Int32Array(0)
  const paths: Segment[][] = sequences.map(() => [])
  let nextId = 0
  const close = (index: number, start: number, path: readonly Segment[]): void => {
    const length = idsOf(index).length - start
    paths[index] = length > 0 ? [...path, { id: nextId++, length }] : [...path]
  }
  const open = [{ members: sequences.map((_, index) => index), start: 0, path: [] as readonly Segment[] }]
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const { members, start, path } = node
    const active = members.filter((index) => (shareable[index] ?? 0) > start)
    for (const index of members) if ((shareable[index] ?? 0) <= start) close(index, start, path)
    const [first, ...others] = active
    if (first === undefined) continue
    if (others.length === 0) {
      close(first, start, path)
      continue
    }
    const end = commonEnd(active, start)
    if (end - start >= MIN_SHARED_LENGTH) {
      open.push({ members: active, start: end, path: [...path, { id: nextId++, length: end - start }] })
      continue
    }
    // Too short to share: divided by the token that follows, each part tries again from the same start.
    const parts = new Map<number, number[]>()
    for (const index of active) {
      if ((shareable[index] ?? 0) <= end) {
        close(index, start, path)
        continue
      }
      const token = idsOf(index)[end] ?? -1
      const part = parts.get(token)
      if (part === undefined) parts.set(token, [index])
      else part.push(index)
    }
    for (const part of parts.values()) open.push({ members: part, start, path })
  }
  return paths

  function commonEnd(members: readonly number[], start: number): number {
    const reference = idsOf(members[0] ?? 0)
    let end = Number.POSITIVE_INFINITY
    for (const index of members) {
      const ids = idsOf(index)
      const limit = Math.min(end, shareable[index] ?? 0)
      end = start
      while (end < limit && ids[end] === reference[end]) end += 1
    }
    return end
  }
}

/** A row of ART's being filled. */
interface Bin {
  readonly index: number
  room: number
  readonly members: number[]
}

/** Best fit with shared segments. Bins are found by their room, or by a segment they hold. */
class Bins {
  readonly #capacity: number
  readonly #bins: Bin[] = []
  readonly #byRoom = new Map<number, Set<Bin>>()
  readonly #bySegment = new Map<number, Set<Bin>>()

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  members(): readonly (readonly number[])[] {
    return this.#bins.map((bin) => bin.members)
  }

  place(index: number, path: readonly Segment[]): void {
    const length = path.reduce((sum, segment) => sum + segment.length, 0)
    const sharing = this.#bestSharing(path, length)
    const apart = this.#bestApart(path, length)
    const isSharing =
      sharing !== null && (apart === null || isBetter(sharing, { bin: apart, rest: apart.room - length }))
    const bin = (isSharing ? sharing.bin : apart) ?? this.#create()
    this.#byRoom.get(bin.room)?.delete(bin)
    bin.members.push(index)
    bin.room = Math.max(0, isSharing ? sharing.rest : bin.room - length)
    addTo(this.#byRoom, bin.room, bin)
    for (const { id } of path) addTo(this.#bySegment, id, bin)
  }

  /** Among the bins that hold a part of the path already, the one left with the least room. */
  #bestSharing(path: readonly Segment[], length: number): { readonly bin: Bin; readonly rest: number } | null {
    let best: { readonly bin: Bin; readonly rest: number } | null = null
    for (const bin of this.#bySegment.get(path[0]?.id ?? -1) ?? []) {
      if (bin.room === 0) continue
      let cost = length
      for (const { id, length: part } of path) {
        if (this.#bySegment.get(id)?.has(bin) !== true) break
        cost -= part
      }
      const found = { bin, rest: bin.room - cost }
      if (found.rest >= 0 && (best === null || isBetter(found, best))) best = found
    }
    return best
  }

  /** Among the other bins, the one with the least room that is enough; the oldest of those. */
  #bestApart(path: readonly Segment[], length: number): Bin | null {
    const holders = this.#bySegment.get(path[0]?.id ?? -1)
    let best: Bin | null = null
    const consider = (bin: Bin): void => {
      if (bin.room < length || holders?.has(bin) === true) return
      if (best === null || bin.room < best.room || (bin.room === best.room && bin.index < best.index)) best = bin
    }
    // Whichever are fewer: bins, or rooms that a bin can have.
    if (this.#bins.length <= this.#capacity - length) this.#bins.forEach(consider)
    else
      for (let room = length; room <= this.#capacity && best === null; room += 1)
        this.#byRoom.get(room)?.forEach(consider)
    return best
  }

  #create(): Bin {
    const bin: Bin = { index: this.#bins.length, room: this.#capacity, members: [] }
    this.#bins.push(bin)
    return bin
  }
}

function addTo(sets: Map<number, Set<Bin>>, key: number, bin: Bin): void {
  const set = sets.get(key)
  if (set === undefined) sets.set(key, new Set([bin]))
  else set.add(bin)
}

function isBetter(
  a: { readonly bin: Bin; readonly rest: number },
  b: { readonly bin: Bin; readonly rest: number },
): boolean {
  return a.rest < b.rest || (a.rest === b.rest && a.bin.index < b.bin.index)
}

/** Fisher-Yates, in place. */
export function shuffle<Item>(items: Item[], seed: string): void {
  const rng = createRng(seed)
  for (let last = items.length - 1; last > 0; last -= 1) {
    const chosen = rng.integer(last + 1)
    const [a, b] = [items[last], items[chosen]]
    if (a !== undefined && b !== undefined) [items[last], items[chosen]] = [b, a]
  }
}
