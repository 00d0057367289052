/**
 * Every family against transformers' own classes: a tiny random checkpoint on disk, opened, prepared, served and trained.
 *
 * Goldens: test/goldens/make_family_goldens.py (float64; sequences longer than the sliding windows). Tolerance: 1e-4 relative to the
 * largest number of each tensor; norms and rotary tables of transformers are float32 inside.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { layoutAdapter } from '#inference/engine/runner/adapter-layout.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { decoderConfigOf, decoderTensorShapes } from '#model/architectures/registry.js'
import { readRotaryFrequencies, readSlidingFrequencies } from '#model/architectures/rotary-frequencies.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { writeSafetensors } from '#model/weights/safetensors.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { decoderEntries, generalEntries, ggufTensors } from '#plugins/export/gguf/gguf-description.js'
import { ggufFile } from '#plugins/export/gguf/gguf-file.js'
import { mergedTensors } from '#plugins/export/merged-tensors.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { perToken, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import type { RowModel } from '#training/trainer/row-decoder.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildLogitsGraph, buildTrainGraph, gradientName } from '#training/trainer/train-graph.js'
import { expectCode } from '../../support/expect-code.js'
import { formulaTensor, type PackedArray, readGolden, unpack } from '../../support/model/decoder-goldens.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'
import { feed, loadForTest, newCache, relativeError } from '../inference/step-harness.js'

interface FamilyGolden {
  readonly config: JsonObject
  readonly shapes: Readonly<Record<string, readonly number[]>>
  readonly tokens: readonly number[]
  readonly logits: PackedArray
  readonly adapter: { readonly rank: number; readonly alpha: number }
  readonly adaptedLogits: PackedArray
  readonly loss: number
  readonly gradients: Readonly<Record<string, PackedArray>>
}

const GOLDENS = readGolden<Readonly<Record<string, FamilyGolden>>>('families.json')
const TOLERANCE = 1e-5

/** Where GGUF has no field: another scale of the scores, longrope, a scaling of Llama's kind for another length than Llama's. */
const GGUF_CHANGES: Readonly<Record<string, JsonObject>> = {
  gemma3: { query_pre_attn_scalar: 16 },
  'llama-longrope': { rope_scaling: null },
  'llama-3.2': {
    rope_theta: 500_000,
    rope_scaling: {
      ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
      original_max_position_embeddings: 8192,
    },
  },
}

/** Writes the checkpoint as transformers would save it. */
async function writeModel(family: string, golden: FamilyGolden, changes: JsonObject = {}): Promise<string> {
  const directory = await temporaryDirectory()
  const tensors = new Map<string, HostTensor>()
  for (const [name, shape] of Object.entries(golden.shapes)) {
    const count = shape.reduce((product, size) => product * size, 1)
    const [scale, offset] =
      shape.length === 2 ? [0.3, 0] : name.endsWith('bias') ? [0.1, 0] : [0.2, family === 'gemma3' ? 0 : 1]
    tensors.set(name, float32Tensor(formulaTensor(name, count, scale, offset), shape))
  }
  await writeSafetensors(join(directory, 'model.safetensors'), tensors)
  await writeFile(join(directory, 'config.json'), JSON.stringify({ ...golden.config, ...changes }))
  return directory
}

async function prepare(path: string): Promise<PreparedModel> {
  return prepareBaseModel(path, join(await temporaryDirectory(), 'prepared'), ['f32', 'int8'])
}

function adapterOf({ shapes, adapter }: FamilyGolden): AdapterWeights {
  const [a, b] = [new Map<string, Float32Array>(), new Map<string, Float32Array>()]
  for (const [name, [rows = 0, columns = 0]] of Object.entries(shapes)) {
    const path = /^(model\.layers\..*_proj)\.weight$/.exec(name)?.[1]
    if (path === undefined) continue
    a.set(path, formulaTensor(`${path}.lora_A`, adapter.rank * columns, 0.3))
    b.set(path, formulaTensor(`${path}.lora_B`, rows * adapter.rank, 0.3))
  }
  const targets = [...new Set([...a.keys()].map((path) => path.slice(path.lastIndexOf('.') + 1)))].sort()
  return { config: { ...adapter, targets }, a, b }
}

function rows(packed: PackedArray): Float32Array[] {
  const [count = 0, width = 0] = packed.shape
  const values = unpack(packed)
  return Array.from({ length: count }, (_, i) => values.slice(i * width, (i + 1) * width))
}

function rowModel(prepared: PreparedModel, golden: FamilyGolden, isAttentionBlocked = false): RowModel {
  return { config: prepared.config, tensors: prepared.tensors('f32'), adapter: golden.adapter, isAttentionBlocked }
}

async function runRows(
  graph: ReturnType<typeof buildLogitsGraph>,
  prepared: PreparedModel,
  run: (session: Awaited<ReturnType<typeof openRowSession>>) => Promise<Record<string, HostTensor>>,
  attentionBlock?: number,
): Promise<Record<string, HostTensor>> {
  const tensors = prepared.tensors('f32')
  const session = await openRowSession(graph, {
    runtime: createOrtRuntime(),
    directory: prepared.directory,
    frequencies: await readRotaryFrequencies(tensors),
    slidingFrequencies: await readSlidingFrequencies(tensors),
    slidingWindow: prepared.config.slidingWindow,
    attentionBlock,
  })
  try {
    return await run(session)
  } finally {
    await session.release()
  }
}

function floats(tensor: HostTensor | undefined): Float32Array {
  if (tensor?.dtype !== 'float32') throw new Error('expected a float32 tensor')
  return tensor.data
}

describe('the text part of a model for images and text', () => {
  const golden = GOLDENS['gemma3'] as FamilyGolden

  test.each([
    ['as it is published', (name: string) => `language_model.${name}`],
    ['as its classes name it', (name: string) => name.replace('model.', 'model.language_model.')],
  ])('gives transformers’ logits, %s', async (_, toName) => {
    const directory = await writeModel('gemma3', golden)
    const { architectures: _own, ...text } = golden.config
    const whole = { model_type: 'gemma3', architectures: ['Gemma3ForConditionalGeneration'], vision_config: {} }
    await writeFile(join(directory, 'config.json'), JSON.stringify({ ...whole, text_config: text }))
    const tensors = new Map<string, HostTensor>()
    const source = await openWeights(await writeModel('gemma3', golden))
    for (const name of source.tensorNames) {
      tensors.set(toName(name), float32Tensor(await source.readFloat32(name), source.tensorShape(name)))
    }
    await source.close()
    tensors.set('vision_tower.embeddings.weight', float32Tensor(new Float32Array(4), [2, 2]))
    await writeSafetensors(join(directory, 'model.safetensors'), tensors)
    const prepared = await prepare(directory)
    const model = await loadForTest(prepared)
    expect(relativeError(await feed(model, golden.tokens), rows(golden.logits))).toBeLessThan(TOLERANCE)
    await model.release()
  })
})

/** As transformers 5: a head that differs from the embedding is used, whatever the configuration says. */
const SAID_TIED: JsonObject = { tie_word_embeddings: true }
const CASES: readonly (readonly [string, string, JsonObject])[] = [
  ...Object.keys(GOLDENS).map((family) => [family, family, {}] as const),
  ['mistral with a head of its own, said to be tied', 'mistral', SAID_TIED],
]

describe.each(CASES)('%s', (_case, family, changes) => {
  const golden = GOLDENS[family] as FamilyGolden
  const { tokens } = golden
  const adapter = adapterOf(golden)

  test('prefill, chunks and single tokens give transformers’ logits, with and without an adapter', async () => {
    const prepared = await prepare(await writeModel(family, golden, changes))
    const model = await loadForTest(prepared)
    const layout = layoutAdapter(prepared.config, adapter)
    for (const [own, expected] of [
      [null, rows(golden.logits)],
      [layout, rows(golden.adaptedLogits)],
    ] as const) {
      expect(relativeError(await feed(model, tokens, { adapter: own }), expected)).toBeLessThan(TOLERANCE)
      const cache = newCache(prepared.config)
      const pieces = [tokens.slice(0, 5), tokens.slice(5, 16), ...tokens.slice(16).map((token) => [token])]
      const inPieces: Float32Array[] = []
      for (const ids of pieces) inPieces.push(...(await feed(model, ids, { cache, adapter: own })))
      expect(relativeError(inPieces, expected)).toBeLessThan(TOLERANCE)
    }
    await model.release()
    const int8 = await loadForTest(prepared, 'int8')
    expect(relativeError(await feed(int8, tokens), rows(golden.logits))).toBeLessThan(0.05)
    await int8.release()
  })

  test.each([
    { attentionBlock: undefined },
    // several blocks for a window, the last one not full
    { attentionBlock: 7 },
  ])(
    'the train graph gives PyTorch’s loss and gradients, attention in blocks of $attentionBlock',
    async ({ attentionBlock }) => {
      const prepared = await prepare(await writeModel(family, golden, changes))
      const mask = new Uint8Array(tokens.length).fill(1)
      const batch = toRowBatch([sequenceRow(Int32Array.from(tokens), mask)], { length: 32 })
      const model = rowModel(prepared, golden, attentionBlock !== undefined)
      const logits = await runRows(
        buildLogitsGraph(model),
        prepared,
        (session) => session.run(batch, adapterFeeds(adapter)),
        attentionBlock,
      )
      const width = golden.logits.shape[1] ?? 0
      const actual = tokens.map((_, i) => floats(logits['logits']).slice(i * width, (i + 1) * width))
      expect(relativeError(actual, rows(golden.adaptedLogits))).toBeLessThan(TOLERANCE)

      const extras = {
        weight: perToken(batch, () => 1),
        denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
      }
      const trained = await runRows(
        buildTrainGraph(model, { kind: 'cross_entropy' }),
        prepared,
        (session) => session.run(batch, adapterFeeds(adapter), extras),
        attentionBlock,
      )
      expect(floats(trained['loss'])[0]).toBeCloseTo(golden.loss, 4)
      for (const [name, packed] of Object.entries(golden.gradients)) {
        const gradient = floats(trained[gradientName(name)])
        expect(relativeError([gradient], [unpack(packed)]), name).toBeLessThan(TOLERANCE)
      }
    },
  )

  test('as GGUF it is read back with the same logits', async () => {
    const directory = await writeModel(family, golden, { ...GGUF_CHANGES[family], ...changes })
    const source = await openWeights(directory)
    const config = decoderConfigOf(source)
    const tensors = mergedTensors(source, new Set(decoderTensorShapes(config).keys()), null)
    const entries = new Map([...decoderEntries(config), ...generalEntries('tiny', 'f32')])
    const path = join(directory, 'model.gguf')
    await writeFile(path, ggufFile('model.gguf', entries, ggufTensors(tensors, config, 'f32')).bytes())
    await source.close()
    const [fromHf, fromGguf] = [await prepare(directory), await prepare(path)]
    const [a, b] = [await loadForTest(fromHf), await loadForTest(fromGguf)]
    expect(relativeError(await feed(b, tokens), await feed(a, tokens))).toBeLessThan(1e-6)
    await Promise.all([a.release(), b.release()])
  })
})

test('a head that is the embedding once more stays tied, and a manifest of an earlier reading is not taken over', async () => {
  const golden = GOLDENS['mistral'] as FamilyGolden
  const directory = await writeModel('mistral', golden, SAID_TIED)
  const preparedDir = join(await temporaryDirectory(), 'prepared')
  const first = await prepareBaseModel(directory, preparedDir, ['f32'])
  expect(first.config.isEmbeddingTied).toBe(false)
  // as an earlier release wrote it
  const path = join(first.directory, 'manifest.json')
  const manifest = JSON.parse(await readFile(path, 'utf8')) as { config: JsonObject }
  await writeFile(path, JSON.stringify({ ...manifest, config: { ...manifest.config, isEmbeddingTied: true } }))
  const again = await prepareBaseModel(directory, preparedDir, ['f32'])
  expect([again.config.isEmbeddingTied, again.tensors('f32').has('head')]).toEqual([false, true])

  const source = await openWeights(directory)
  const name = 'model.embed_tokens.weight'
  const embedding = float32Tensor(await source.readFloat32(name), source.tensorShape(name))
  const tensors = new Map<string, HostTensor>()
  for (const each of source.tensorNames) {
    tensors.set(each, float32Tensor(await source.readFloat32(each), source.tensorShape(each)))
  }
  await source.close()
  await writeSafetensors(join(directory, 'model.safetensors'), tensors.set('lm_head.weight', embedding))
  const same = await openWeights(directory)
  expect(decoderConfigOf(same).isEmbeddingTied).toBe(true)
  await same.close()
})

test.each([
  ['gemma3', 'scores'],
  ['llama-longrope', 'longrope'],
])('what GGUF cannot say is refused: %s', async (family, word) => {
  const golden = GOLDENS[family] as FamilyGolden
  const source = await openWeights(await writeModel(family, golden))
  await expectCode(() => decoderEntries(decoderConfigOf(source)), 'unsupported_export', word)
  await source.close()
})
