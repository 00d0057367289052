/**
 * The adapter inputs of a step: the matrices of its adapters one after the other, and which tokens belong to each.
 *
 * Each adapter's tokens are multiplied with its own matrices, so weights are read once whatever the number of adapters. Tokens lie
 * in slots, as many per adapter as the busiest has. There are never fewer than two: the runtime adds up a single row in another
 * order than several, and an answer must not depend on who shares its step. Tokens of the base model beside others have an
 * adapter of zeros, so that nobody's numbers reach anybody else, not even those of an adapter that has diverged.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { adapterInput, STEP_INPUTS } from '#model/architectures/step-graph.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { StepBatch } from '../step-batch.js'
import { type AdapterLayout, inputSizeOf, JOINED_PROJECTIONS, outputSizeOf, siteOf } from './adapter-layout.js'

const LEAST_SLOTS = 2

/** Float32 matrices of one kind side by side, with room for more. */
interface Stack {
  readonly name: string
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
  /** Of tokens without an adapter. */
  readonly #base: AdapterLayout
  readonly #none: Readonly<Record<string, HostTensor>>
  /** Adapters in the order in which they lie in the stacks. */
  #members: AdapterLayout[] = []
  #capacity = 0
  #stacks: readonly Stack[] = []
  #tensors: Readonly<Record<string, HostTensor>> = {}

  constructor(config: DecoderConfig) {
    this.#config = config
    this.#base = emptyLayout(config)
    this.#none = {
      ...this.#tensorsOf([], this.#stacksFor([], 0)),
      [STEP_INPUTS.hasAdapters]: flag(false),
      [STEP_INPUTS.adapterTokens]: int32(new Int32Array(0), [0, 0]),
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
    return { ...matrices, [STEP_INPUTS.hasAdapters]: flag(true), ...slotFeeds(batch, places, members.length) }
  }

  readonly #single = new WeakMap<AdapterLayout, Readonly<Record<string, HostTensor>>>()

  #tensorsOfOne(layout: AdapterLayout): Readonly<Record<string, HostTensor>> {
    const known = this.#single.get(layout)
    if (known !== undefined) return known
    const stacks = this.#stacksFor([layout], 0).map((stack) => ({ ...stack, data: stack.partOf(layout) }))
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
      this.#stacks = this.#stacksFor(layouts, this.#capacity)
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

  #stacksFor(layouts: readonly AdapterLayout[], capacity: number): readonly Stack[] {
    const stacks: Stack[] = []
    for (let layer = 0; layer < this.#config.layerCount; layer++) {
      for (const site of JOINED_PROJECTIONS) {
        const rows = Math.max(0, ...layouts.map((layout) => layout.widths[site]))
        for (const matrix of ['a', 'b'] as const) {
          const rowSize = matrix === 'a' ? inputSizeOf(this.#config, site) : outputSizeOf(this.#config, site)
          stacks.push({
            name: adapterInput(layer, site, matrix),
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
      stacks.map(({ name, rows, rowSize, data }) => [
        name,
        float32Tensor(data.subarray(0, count * rows * rowSize), [count, rows, rowSize]),
      ]),
    )
  }
}

function rowsOf({ partOf, rowSize }: Stack, layout: AdapterLayout): number {
  return partOf(layout).length / rowSize
}

/**
 * Which token lies in which slot of its adapter.
 *
 * @param members each sequence's adapter among `count`
 */
function slotFeeds(batch: StepBatch, members: readonly number[], count: number): Record<string, HostTensor> {
  const memberOf = batch.sequences.flatMap(({ ids }, index) => ids.map(() => members[index] as number))
  const taken = new Array<number>(count).fill(0)
  for (const member of memberOf) taken[member] = (taken[member] as number) + 1
  const slots = Math.max(LEAST_SLOTS, ...taken)
  const adapterTokens = new Int32Array(count * slots)
  const slotOf = new Int32Array(memberOf.length)
  for (let token = memberOf.length - 1; token >= 0; token--) {
    const member = memberOf[token] as number
    taken[member] = (taken[member] as number) - 1
    slotOf[token] = member * slots + (taken[member] as number)
    adapterTokens[slotOf[token] as number] = token
  }
  return {
    [STEP_INPUTS.adapterTokens]: int32(adapterTokens, [count, slots]),
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
