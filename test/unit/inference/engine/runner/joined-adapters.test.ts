/**
 * Adapters of a step side by side: whoever comes and goes, every token is multiplied with its own adapter's numbers.
 */
import { describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import {
  type AdapterLayout,
  inputSizeOf,
  JOINED_PROJECTIONS,
  outputSizeOf,
} from '#inference/engine/runner/adapter-layout.js'
import { JoinedAdapters } from '#inference/engine/runner/joined-adapters.js'
import type { StepBatch } from '#inference/engine/runner/step-batch.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { adapterInput, STEP_INPUTS } from '#model/architectures/step-graph.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { type DecoderGolden, readGolden } from '../../../../support/model/decoder-goldens.js'

const { config } = readGolden<DecoderGolden>('decoder-llama.json')

/** Every number of an adapter is its own. */
function layoutOf(config: DecoderConfig, number: number, width: number): AdapterLayout {
  const site = (name: (typeof JOINED_PROJECTIONS)[number]) => {
    const [inputSize, outputSize] = [inputSizeOf(config, name), outputSizeOf(config, name)]
    const numbers = (count: number): Float32Array => Float32Array.from({ length: count }, (_, i) => number * 10_000 + i)
    return { a: numbers(width * inputSize), b: numbers(width * outputSize), width, inputSize, outputSize }
  }
  const sites = { qkv: site('qkv'), o: site('o'), gate_up: site('gate_up'), down: site('down') }
  const widths = { qkv: width, o: width, gate_up: width, down: width }
  return { layers: Array.from({ length: config.layerCount }, () => sites), widths, sizeBytes: 0 }
}

/** A batch of sequences with one token each, or as many as given. */
function batchOf(adapters: readonly AdapterLayout[], rows: readonly number[], tokens = 1): StepBatch {
  const sequences = rows.map((adapter, row) => {
    return { row, member: 0, ids: Array.from({ length: tokens }, () => 1), promptLength: 0, tailLength: 0, adapter }
  })
  const nothing = { prompts: null, tails: null, logitRows: [0], inverseTemperatures: [1] }
  return { sequences, groups: rows.length, width: 1, adapters, ...nothing }
}

function numbersOf(tensor: HostTensor | undefined): readonly number[] {
  return Array.from(tensor?.data ?? [], Number)
}

/** Follows each token to its slot and compares what lies there. */
function expectOwnNumbers(feeds: Readonly<Record<string, HostTensor>>, batch: StepBatch): void {
  const [, , slots = 0] = feeds[STEP_INPUTS.adapterTokens]?.shape ?? []
  const tokens = numbersOf(feeds[STEP_INPUTS.adapterTokens])
  const slotOf = numbersOf(feeds[STEP_INPUTS.adapterSlots])
  const owners = batch.sequences.flatMap(({ ids, adapter }) => ids.map(() => adapter))
  expect(slots).toBeGreaterThanOrEqual(2)
  expect(new Set(slotOf).size).toBe(owners.length)
  for (const [token, owner] of owners.entries()) {
    const slot = slotOf[token] ?? -1
    expect(tokens[slot]).toBe(token)
    const layout = batch.adapters[owner]
    for (const site of JOINED_PROJECTIONS) {
      for (const matrix of ['a', 'b'] as const) {
        const tensor = feeds[adapterInput(config.layerCount - 1, site, matrix)]
        const size = tensor?.shape.at(-1) ?? 0
        const width = (tensor?.shape.slice(1, -1) ?? []).reduce((product, dim) => product * dim, 1)
        const start = Math.floor(slot / slots) * width * size
        const found = numbersOf(tensor).slice(start, start + width * size)
        // the base model's tokens have zeros
        const own = layout?.layers[0]?.[site][matrix] ?? []
        expect(found.length).toBe(width * size)
        expect(found).toEqual([...own, ...new Array<number>(width * size - own.length).fill(0)])
      }
    }
  }
}

describe('joined adapters', () => {
  test('follow batches of any adapters and tokens', () => {
    const joined = new JoinedAdapters(config, 2)
    const rng = createRng('joined-adapters')
    const all = Array.from({ length: 12 }, (_, i) => layoutOf(config, i + 1, [2, 4, 3][i % 3] ?? 2))
    for (let round = 0; round < 60; round++) {
      const adapters = all.filter(() => rng.uniform() < [0.15, 0.5, 0.9][round % 3]!)
      if (adapters.length === 0) continue
      const rows = Array.from({ length: adapters.length + 3 }, (_, row) =>
        row < adapters.length ? row : Math.floor(rng.uniform() * (adapters.length + 1)) - 1,
      )
      const batch = batchOf(adapters, rows, 1 + (round % 2))
      expectOwnNumbers(joined.feeds(batch), batch)
    }
  })

  test('one adapter is used where it lies, without a copy', () => {
    const layout = layoutOf(config, 7, 4)
    const batch = batchOf([layout], [0])
    const feeds = new JoinedAdapters(config, 2).feeds(batch)
    expectOwnNumbers(feeds, batch)
    const tensor = feeds[adapterInput(0, 'o', 'a')]
    expect(tensor?.data.buffer).toBe(layout.layers[0]?.o.a.buffer)
  })

  test('a step without adapters says so', () => {
    const feeds = new JoinedAdapters(config, 2).feeds(batchOf([], [-1]))
    expect(numbersOf(feeds[STEP_INPUTS.hasAdapters])).toEqual([0])
  })
})
