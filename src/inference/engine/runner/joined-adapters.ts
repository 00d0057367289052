/**
 * The adapter inputs of a step: the matrices of its adapters one after the other, and which tokens belong to each.
 *
 * Each adapter's tokens are multiplied with its own matrices, so weights are read once whatever the number of adapters. Tokens lie
 * in slots, as many per adapter as the busiest has and as keep a token's bits (`slotCount`): an answer must not depend on who shares
 * its step. Tokens of the base model beside others have an adapter of zeros, so that nobody's numbers reach anybody else, not even
 * those of an adapter that has diverged.
 */
import { maxOf } from '#base/util/lists.js'
import type { JoinedProjection } from '#model/architectures/decoder.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { adapterInput, STEP_INPUTS } from '#model/architectures/step-graph.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import {
  type AdapterLayout,
  inputSizeOf,
  JOINED_PROJECTIONS,
  outputSizeOf,
  pieceCount,
  siteOf,
} from './adapter-layout.js'
import type { StepBatch } from './step-batch.js'

/** The runtime adds up a single row in another order than several. */
const LEAST_ROWS = 2
/** Numbers of a weight from which on the runtime may give a thread a single row; it counts 65,536 products to a thread. */
const DIVIDED_NUMBERS = 16_384

type Widths = Readonly<Record<JoinedProjection, number>>

/** Float32 matrices of one kind side by side, with room for more. */
interface Stack {
  readonly name: string
  readonly matrix: 'a' | 'b'
  readonly partOf: (layout: AdapterLayout) => Float32Array
  /** Numbers of one row: the input's or the output's size. */
  readonly rowSize: number
  /** Rows of each adapter; narrower ones end in zeros. */
  readonly rows: number
  readonly data: Float32Array
}

/** Adapter inputs of the step graph; what several adapters need is kept, because batches change little from step to step. */
export class JoinedAdapters {
  readonly #config: DecoderConfig
  readonly #threads: number
  /** Of tokens without an adapter. */
  readonly #base: AdapterLayout
  readonly #none: Readonly<Record<string, HostTensor>>
  /** Adapters in the order in which they lie in the stacks. */
  #members: AdapterLayout[] = []
  #capacity = 0
  #stacks: readonly Stack[] = []
  /** Of the stacks. */
  #widths: Widths
  #tensors: Readonly<Record<string, HostTensor>> = {}

  /** @param threads that the runtime may divide a product over, at most */
  constructor(config: DecoderConfig, threads: number) {
    this.#config = config
    this.#threads = threads
    this.#base = emptyLayout(config)
    this.#widths = this.#base.widths
    this.#none = {
      ...this.#tensorsOf([], this.#stacksFor(this.#widths, 0)),
      [STEP_INPUTS.hasAdapters]: flag(false),
      [STEP_INPUTS.adapterTokens]: int32(new Int32Array(0), [0, 1, 0]),
      [STEP_INPUTS.adapterSlots]: int32(new Int32Array(0), [0]),
    }
  }

  feeds(batch: StepBatch): Readonly<Record<string, HostTensor>> {
    if (batch.adapters.length === 0) return this.#none
    const [only] = batch.adapters
    // One is used where it lies, and leaves what others share as it is.
    const hasBase = batch.sequences.some(({ adapter }) => adapter < 0)
    const isOne = only !== undefined && batch.adapters.length === 1 && !hasBase
    const members = isOne ? [only] : this.#join(hasBase ? [...batch.adapters, this.#base] : batch.adapters)
    const matrices = isOne ? this.#tensorsOfOne(only) : this.#tensors
    const places = batch.sequences.map(({ adapter }) => members.indexOf(batch.adapters[adapter] ?? this.#base))
    const tokens = tokensOf(batch, places, members.length)
    const sizes = { adapters: members.length, threads: this.#threads, widths: isOne ? only.widths : this.#widths }
    const slots = slotCount(this.#config, maxOf(tokens.map(({ length }) => length)), sizes)
    return { ...matrices, [STEP_INPUTS.hasAdapters]: flag(true), ...slotFeeds(tokens, slots) }
  }

  readonly #single = new WeakMap<AdapterLayout, Readonly<Record<string, HostTensor>>>()

  #tensorsOfOne(layout: AdapterLayout): Readonly<Record<string, HostTensor>> {
    const known = this.#single.get(layout)
    if (known !== undefined) return known
    const stacks = this.#stacksFor(layout.widths, 0).map((stack) => ({ ...stack, data: stack.partOf(layout) }))
    const tensors = this.#tensorsOf([layout], stacks)
    this.#single.set(layout, tensors)
    return tensors
  }

  /** Brings the stacks to these adapters, moving only what came and what takes the place of one that left. */
  #join(layouts: readonly AdapterLayout[]): readonly AdapterLayout[] {
    const wanted = new Set(layouts)
    const isCurrent = this.#members.length === wanted.size && this.#members.every((member) => wanted.has(member))
    if (isCurrent) return this.#members
    const isWider = layouts.some((layout) => this.#stacks.some((stack) => rowsOf(stack, layout) > stack.rows))
    if (isWider || layouts.length > this.#capacity || 4 * layouts.length <= this.#capacity) {
      this.#members = []
      this.#capacity = layouts.length === 2 ? 2 : 4 * Math.ceil(layouts.length / 4)
      this.#widths = widest(layouts)
      this.#stacks = this.#stacksFor(this.#widths, this.#capacity)
    }
    const missing = [...wanted].filter((layout) => !this.#members.includes(layout))
    let at = 0
    while (at < this.#members.length) {
      if (wanted.has(this.#members[at] as AdapterLayout)) {
        at++
        continue
      }
      const next = missing.pop()
      const last = next === undefined ? this.#members.pop() : next
      if (last !== undefined && at < this.#members.length) this.#put(at, last)
    }
    for (const layout of missing) this.#put(this.#members.length, layout)
    this.#tensors = this.#tensorsOf(this.#members, this.#stacks)
    return this.#members
  }

  #put(at: number, layout: AdapterLayout): void {
    for (const { partOf, rows, rowSize, data } of this.#stacks) {
      const part = partOf(layout)
      const start = at * rows * rowSize
      data.set(part, start)
      data.fill(0, start + part.length, start + rows * rowSize)
    }
    this.#members[at] = layout
  }

  #stacksFor(widths: Widths, capacity: number): readonly Stack[] {
    const stacks: Stack[] = []
    for (let layer = 0; layer < this.#config.layerCount; layer++) {
      for (const site of JOINED_PROJECTIONS) {
        const rows = widths[site]
        for (const matrix of ['a', 'b'] as const) {
          const rowSize = matrix === 'a' ? inputSizeOf(this.#config, site) : outputSizeOf(this.#config, site)
          stacks.push({
            name: adapterInput(layer, site, matrix),
            matrix,
            partOf: (layout) => siteOf(layout, layer, site)[matrix],
            rowSize,
            rows,
            data: new Float32Array(capacity * rows * rowSize),
          })
        }
      }
    }
    return stacks
  }

  #tensorsOf(members: readonly AdapterLayout[], stacks: readonly Stack[]): Readonly<Record<string, HostTensor>> {
    const count = members.length
    return Object.fromEntries(
      stacks.map(({ name, matrix, rows, rowSize, data }) => {
        const pieces = pieceCount(rows)
        const shape = matrix === 'a' ? [count, pieces, rows / pieces, rowSize] : [count, rows, rowSize]
        return [name, float32Tensor(data.subarray(0, count * rows * rowSize), shape)]
      }),
    )
  }
}

function rowsOf({ partOf, rowSize }: Stack, layout: AdapterLayout): number {
  return partOf(layout).length / rowSize
}

function widest(layouts: readonly AdapterLayout[]): Widths {
  const of = (site: JoinedProjection): number => maxOf(layouts.map(({ widths }) => widths[site]))
  return { qkv: of('qkv'), o: of('o'), gate_up: of('gate_up'), down: of('down') }
}

/**
 * Slots of each adapter, for `busiest` tokens of one: as many as leave no thread with a single row. The runtime divides a product
 * by rows once it has as many rows as columns.
 */
function slotCount(
  config: DecoderConfig,
  busiest: number,
  { adapters, threads, widths }: { readonly adapters: number; readonly threads: number; readonly widths: Widths },
): number {
  const products = JOINED_PROJECTIONS.flatMap((site) => {
    const [inner, outer, width] = [inputSizeOf(config, site), outputSizeOf(config, site), widths[site]]
    const pieces = pieceCount(width)
    return [
      { columns: width / pieces, numbers: (width / pieces) * inner, count: adapters * pieces },
      { columns: outer, numbers: outer * width, count: adapters },
    ]
  }).filter(({ numbers }) => numbers >= DIVIDED_NUMBERS)
  let slots = Math.max(LEAST_ROWS, busiest)
  for (let before = 0; before < slots; ) {
    before = slots
    for (const { columns, count } of products) {
      if (columns <= slots) slots = Math.max(slots, LEAST_ROWS * Math.ceil(threads / count))
    }
  }
  return slots
}

/**
 * The tokens of each adapter, numbered as all new tokens of the step.
 *
 * @param members each sequence's adapter among `count`
 */
function tokensOf(batch: StepBatch, members: readonly number[], count: number): readonly (readonly number[])[] {
  const tokens: number[][] = Array.from({ length: count }, () => [])
  let next = 0
  for (const [index, { ids }] of batch.sequences.entries()) {
    for (let i = 0; i < ids.length; i++) tokens[members[index] as number]?.push(next++)
  }
  return tokens
}

/** Which token lies in which slot of its adapter. */
function slotFeeds(tokens: readonly (readonly number[])[], slots: number): Record<string, HostTensor> {
  const adapterTokens = new Int32Array(tokens.length * slots)
  const slotOf = new Int32Array(tokens.reduce((sum, own) => sum + own.length, 0))
  for (const [member, own] of tokens.entries()) {
    adapterTokens.set(own, member * slots)
    for (const [slot, token] of own.entries()) slotOf[token] = member * slots + slot
  }
  return {
    [STEP_INPUTS.adapterTokens]: int32(adapterTokens, [tokens.length, 1, slots]),
    [STEP_INPUTS.adapterSlots]: int32(slotOf, [slotOf.length]),
  }
}

function emptyLayout(config: DecoderConfig): AdapterLayout {
  const none = new Float32Array(0)
  const site = { a: none, b: none, width: 0, inputSize: 0, outputSize: 0 }
  const sites = { qkv: site, o: site, gate_up: site, down: site }
  const widths = { qkv: 0, o: 0, gate_up: 0, down: 0 }
  return { layers: Array.from({ length: config.layerCount }, () => sites), widths, sizeBytes: 0 }
}

function flag(value: boolean): HostTensor {
  return { dtype: 'bool', shape: [], data: Uint8Array.of(value ? 1 : 0) }
}

function int32(data: Int32Array, shape: readonly number[]): HostTensor {
  return { dtype: 'int32', shape, data }
}
