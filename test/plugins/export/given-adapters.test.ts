/**
 * Adapters as PEFT and mlx-lm save them: merged, and imported where jobs can go on from them, they change the base model's weights as
 * PEFT itself does (`test/goldens/make_adapter_goldens.py`; mlx-lm's by numpy).
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeRandomModel } from '#model/built-in/tiny-random.js'
import { decodeAdapter } from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import { float32ToBfloat16 } from '#numerics/tensor/half.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { uniformAdapter } from '#plugins/engine-nodes/node/vllm-adapters.js'
import { importAdapter } from '#plugins/export/import-adapter.js'
import { mergeAdapter } from '#plugins/export/merge-adapter.js'
import { applyChange, mergedTensors } from '#plugins/export/merged-tensors.js'
import { expectCode } from '../../support/expect-code.js'
import { type PackedArray, readGolden, unpack } from '../../support/model/decoder-goldens.js'

interface Golden {
  readonly base: 'plain' | 'tied'
  readonly config: Record<string, unknown>
  /** Base64. */
  readonly weights: string
  /** The weights that change. */
  readonly merged: Record<string, PackedArray>
}

const EMBEDDING = 'model.embed_tokens.weight'
const HEAD = 'lm_head.weight'
const TOLERANCE = 1e-5
const goldens = readGolden<Record<string, Golden>>('adapters.json')
const golden = (name: string): Golden => {
  const found = goldens[name]
  if (found === undefined) throw new Error(`no golden "${name}"`)
  // PEFT itself writes false for linear modules; adapters that were not saved by it have it still
  return name === 'fan-in' ? { ...found, config: { ...found.config, fan_in_fan_out: true } } : found
}
const isLora = (name: string): boolean => !/dora|modules|embedding/.test(name)
const names = Object.keys(goldens)

let root: string
let counter = 0

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'given-adapters-'))
  const sizes = {
    layerCount: 1,
    hiddenSize: 8,
    headCount: 2,
    kvHeadCount: 1,
    headSize: 4,
    mlpSize: 12,
    vocabularySize: 259,
  }
  for (const base of ['plain', 'tied']) {
    await writeRandomModel(join(root, base), { ...sizes, seed: 'adapters', isEmbeddingTied: base === 'tied' })
  }
})

afterAll(() => rm(root, { recursive: true, force: true }))

const tensorsOf = ({ weights }: Golden): Map<string, HostTensor> =>
  new Map(decodeSafetensors(Buffer.from(weights, 'base64')).tensors)

/** Writes the two files, and says where they lie. */
async function given(
  { base, config }: Golden,
  tensors: ReadonlyMap<string, HostTensor>,
): Promise<{ sourcePath: string; configPath: string; weightsPath: string; baseModel: string }> {
  const folder = join(root, `adapter-${counter++}`)
  await mkdir(folder)
  const [configPath, weightsPath] = [join(folder, 'config'), join(folder, 'weights')]
  await writeFile(configPath, JSON.stringify(config))
  await writeFile(weightsPath, encodeSafetensors(tensors))
  return { sourcePath: join(root, base), configPath, weightsPath, baseModel: 'base' }
}

async function read(path: string, name: string): Promise<Float32Array> {
  const source = await openWeights(path)
  try {
    return await source.readFloat32(name)
  } finally {
    await source.close()
  }
}

async function merge(from: Golden, tensors: ReadonlyMap<string, HostTensor>) {
  const targetPath = join(root, `merged-${counter++}`)
  await mkdir(targetPath)
  const notes = await mergeAdapter({ type: 'merge', ...(await given(from, tensors)), targetPath })
  return { notes, targetPath }
}

async function imports(from: Golden, tensors: ReadonlyMap<string, HostTensor>) {
  const folder = join(root, `imported-${counter++}`)
  await mkdir(folder)
  const paths = { 'adapter_config.json': join(folder, 'c'), 'adapter_model.safetensors': join(folder, 'w') }
  const facts = await importAdapter({ type: 'import', ...(await given(from, tensors)), targets: paths })
  const files = new Map<string, Uint8Array>()
  for (const [name, path] of Object.entries(paths)) files.set(name, await readFile(path))
  return { facts, adapter: decodeAdapter(files) }
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length)
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - (b[i] ?? Number.NaN))), 0)
}

test.each(names)('%s is merged as PEFT merges it', async (name) => {
  const from = golden(name)
  const { targetPath } = await merge(from, tensorsOf(from))
  const source = await openWeights(targetPath)
  for (const tensor of source.tensorNames) {
    const packed = from.merged[tensor]
    const base = tensor === HEAD && from.base === 'tied' ? EMBEDDING : tensor
    const expected = packed === undefined ? await read(join(root, from.base), base) : unpack(packed)
    expect(largestDifference(await source.readFloat32(tensor), expected)).toBeLessThan(TOLERANCE)
  }
  expect(source.tensorNames).toEqual(expect.arrayContaining(Object.keys(from.merged)))
  await source.close()
})

test('an adapter that PEFT saved with ranks by module and rsLoRA is read as it stands, also with one rank for all', async () => {
  const from = golden('stabilized')
  const stored = new Map([
    ['adapter_config.json', Buffer.from(JSON.stringify(from.config))],
    ['adapter_model.safetensors', encodeSafetensors(tensorsOf(from))],
  ])
  const own = decodeAdapter(stored)
  expect(own.config).toEqual({
    rank: 3,
    alpha: 4,
    targets: ['q_proj', 'up_proj', 'v_proj'],
    usesRslora: true,
    rankPattern: { v_proj: 2 },
  })
  const wide = uniformAdapter(own)
  expect(wide.config).toEqual({ rank: 3, alpha: 4, targets: own.config.targets })
  for (const adapter of [own, wide]) {
    const source = await openWeights(join(root, from.base))
    const merged = mergedTensors(source, new Set(source.tensorNames), adapter)
    for (const { name, read: values } of merged) {
      const packed = from.merged[name]
      if (packed === undefined) continue
      expect(largestDifference(await values(), unpack(packed))).toBeLessThan(TOLERANCE)
    }
    await source.close()
  }
})

test('PEFT changes an embedding alone where the head is tied to it, mlx-lm both', async () => {
  const heads = await Promise.all(
    ['tied-embedding', 'mlx-embedding'].map(async (name) => {
      const { targetPath } = await merge(golden(name), tensorsOf(golden(name)))
      const source = await openWeights(targetPath)
      await source.close()
      return source.hasOwnHead
    }),
  )
  expect(heads).toEqual([true, false])
})

test.each(names.filter(isLora))('%s becomes an adapter of one rank that changes as much', async (name) => {
  const from = golden(name)
  const { adapter, facts } = await imports(from, tensorsOf(from))
  const { rank, alpha } = adapter.config
  expect(adapter.a.size).toBe(7)
  for (const [path, a] of adapter.a) {
    const weight = await read(join(root, from.base), `${path}.weight`)
    const packed = from.merged[`${path}.weight`]
    const expected = packed === undefined ? weight.slice() : unpack(packed)
    applyChange(weight, { rank, scale: alpha / rank, a, b: adapter.b.get(path) ?? new Float32Array(), magnitude: null })
    expect(largestDifference(weight, expected)).toBeLessThan(TOLERANCE)
  }
  const words = { 'saved-along': 'model.embed_tokens.weight', 'fan-in': 'fan_in_fan_out' }[name]
  expect(facts.notes.join('; ')).toContain(words ?? '')
  expect(facts.notes.length).toBe(words === undefined ? 0 : 1)
})

test.each([
  ['dora', 'DoRA'],
  ['mlx-dora', 'DoRA'],
  ['modules', 'modules_to_save'],
  ['embedding', 'lm_head'],
])('%s cannot be trained on as it is, and the refusal names the command that merges it', async (name, word) => {
  const from = golden(name)
  const error = await imports(from, tensorsOf(from)).catch((cause: unknown) => cause)
  expect(error).toMatchObject({ code: 'unsupported_adapter', message: expect.stringContaining(word) })
  expect(error).toMatchObject({
    hint: expect.stringContaining('base-models add <folder of the adapter> --base-model base'),
  })
})

const LORA = golden('patterns')
const renamed = (change: (name: string) => string): Map<string, HostTensor> =>
  new Map([...tensorsOf(LORA)].map(([name, tensor]) => [change(name), tensor]))

test.each<[string, (name: string) => string]>([
  ['of a model for images and text', (name) => name.replace('model.model.layers', 'model.model.language_model.layers')],
  ['of one as it was saved before', (name) => name.replace('model.model.layers', 'model.language_model.model.layers')],
  ['of a bare decoder', (name) => name.replace('model.model.layers', 'model.layers')],
  ['of a compiled and wrapped model', (name) => `module._orig_mod.${name}`],
  ['without PEFT’s own', (name) => name.replace('base_model.model.', '')],
  ['with the adapter’s name', (name) => name.replace(/\.lora_([AB])\.weight/, '.lora_$1.default.weight')],
])('names %s mean the same modules', async (_, change) => {
  const plain = await imports(LORA, tensorsOf(LORA))
  const other = await imports(LORA, renamed(change))
  expect(other.adapter).toEqual(plain.adapter)
})

test('a part for images is passed over with a word; an embedding saved in another type of number is the same', async () => {
  const saved = golden('saved-along')
  const tensors = tensorsOf(saved)
  const key = `base_model.model.${EMBEDDING}`
  const embedding = tensors.get(key)
  if (embedding?.dtype !== 'float32') throw new Error('no embedding')
  tensors.set(key, { dtype: 'bfloat16', shape: embedding.shape, data: float32ToBfloat16(embedding.data) })
  const factor: HostTensor = { dtype: 'float32', shape: [2, 4], data: new Float32Array(8) }
  tensors.set('base_model.model.model.vision_tower.encoder.q_proj.lora_A.weight', factor)
  const { facts } = await imports(saved, tensors)
  expect(facts.notes).toHaveLength(2)
  expect(facts.notes.join()).toContain('1 of its tensors')
})

test('what is broken is named', async () => {
  const path = 'base_model.model.model.layers.0.self_attn.q_proj'
  const changed = (change: (tensors: Map<string, HostTensor>) => void) => {
    const tensors = tensorsOf(LORA)
    change(tensors)
    return () => imports(LORA, tensors)
  }
  await expectCode(
    changed((t) => t.delete(`${path}.lora_B.weight`)),
    'invalid_adapter',
    'q_proj.lora_B',
  )
  await expectCode(
    changed((t) => t.clear()),
    'invalid_adapter',
    'no tensors',
  )
  await expectCode(
    changed((t) =>
      t.set('base_model.model.lm_head.weight', { dtype: 'float32', shape: [260, 8], data: new Float32Array(2080) }),
    ),
    'invalid_adapter',
    '[260, 8]',
    'expected [259, 8]',
  )
  await expectCode(
    () => imports({ ...LORA, config: { ...LORA.config, rank_pattern: {} } }, tensorsOf(LORA)),
    'invalid_adapter',
    'of rank',
    'expected rank 2',
  )
  await expectCode(
    () => imports({ ...LORA, config: { ...LORA.config, alpha_pattern: { '(': 3 } } }, tensorsOf(LORA)),
    'invalid_adapter',
    'alpha_pattern',
  )
  await expectCode(
    () => imports({ ...LORA, config: { ...LORA.config, bias: 'all' } }, tensorsOf(LORA)),
    'unsupported_adapter',
    'bias',
  )
})

const PLAIN: Golden = { ...golden('fan-in'), config: { ...golden('fan-in').config, fan_in_fan_out: false } }

/** Fields of a configuration with what is said of them; the tensors are of `q_proj` and `down_proj` of layer 0. */
const SWITCHES = ['use_rslora', 'use_dora', 'fan_in_fan_out', 'lora_bias', 'use_qalora', 'ensure_weight_tying']
test.each<[string, unknown, string]>([
  ...SWITCHES.flatMap((name): [string, unknown, string][] => [
    [name, 'true', `${name} "true", expected true or false`],
    [name, 1, `${name} 1, expected true or false`],
  ]),
  ['r', '2', 'r "2", expected an integer'],
  ['lora_alpha', '4', 'lora_alpha "4", expected a number'],
  ['rank_pattern', { q_proj: 7 }, 'of rank 2 and 2, expected rank 7'],
  ['rank_pattern', { '(': 7 }, 'rank_pattern with "(", which cannot be matched'],
  ['rank_pattern', [7], 'rank_pattern that is no object'],
  ['alpha_pattern', { q_proj: '7' }, 'alpha_pattern with "q_proj": "7", expected a number'],
  ['bias', 'lora_only', 'bias "lora_only", expected "none"'],
  ['init_lora_weights', 'olora', 'init_lora_weights "olora"'],
  ['modules_to_save', 'lm_head', 'modules_to_save "lm_head", expected a list of names'],
  ['trainable_token_indices', [3], 'trainable_token_indices, expected none'],
  ['layer_replication', [[0, 1]], 'layer_replication, expected none'],
  ['target_modules', ['q_proj'], 'which its target_modules do not name'],
  ['target_modules', '.*\\.q_proj', 'which its target_modules do not name'],
  ['target_modules', '(a', 'target_modules "(a", which cannot be matched'],
  ['target_modules', 7, 'target_modules 7, expected a list of names or one regular expression'],
  ['exclude_modules', ['q_proj'], 'which its exclude_modules exclude'],
  ['exclude_modules', '.*self_attn.*', 'which its exclude_modules exclude'],
  ['layers_to_transform', [1], 'which its layers_to_transform leave out'],
  ['layers_to_transform', 1, 'which its layers_to_transform leave out'],
  ['layers_to_transform', '0', 'layers_to_transform "0", expected numbers of layers'],
  ['layers_pattern', '(', 'layers_pattern "(", expected names'],
])('%s of %j is refused: %s', async (field, value, words) => {
  const from = PLAIN
  const error = await imports({ ...from, config: { ...from.config, [field]: value } }, tensorsOf(from)).catch(
    (cause: unknown) => cause,
  )
  expect(error).toMatchObject({
    code: expect.stringMatching(/^(invalid|unsupported)_adapter$/),
    message: expect.stringContaining(words),
  })
})

test.each<[Record<string, unknown>, string | null]>([
  [{ target_modules: 'all-linear' }, null],
  [{ target_modules: '(?:.*?self_attn.*?(?P<p>q_proj|k_proj|v_proj|o_proj))|.*mlp.*' }, null],
  [{ target_modules: null, exclude_modules: null, use_rslora: null, use_dora: null }, null],
  [{ layers_to_transform: [0, 1], layers_pattern: 'layers' }, null],
  [{ layers_to_transform: 0 }, null],
  [{ later_switch: true }, 'later_switch, which is not known here'],
])('%j changes nothing', async (fields, words) => {
  const from = PLAIN
  const plain = await imports(from, tensorsOf(from))
  const { adapter, facts } = await imports({ ...from, config: { ...from.config, ...fields } }, tensorsOf(from))
  expect(adapter).toEqual(plain.adapter)
  expect(facts.notes.join()).toContain(words ?? '')
  expect(facts.notes.length).toBe(words === null ? 0 : 1)
})

test('modules that it names without tensors are told', async () => {
  const from = PLAIN
  const config = { ...from.config, target_modules: [...(from.config['target_modules'] as string[]), 'other_proj'] }
  const { facts } = await imports({ ...from, config }, tensorsOf(from))
  expect(facts.notes).toEqual(['its target_modules name other_proj, of which it has no tensors'])
})
