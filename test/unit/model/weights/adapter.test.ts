/**
 * Adapters: the PEFT layout both ways, and every file that is not one.
 */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../../../src/base/util/json.js'
import { checkAdapterFits, createAdapter, decodeAdapter, encodeAdapter } from '../../../../src/model/weights/adapter.js'
import { scaleOf } from '../../../../src/model/weights/adapter-config.js'
import { decodeSafetensors, encodeSafetensors } from '../../../../src/model/weights/safetensors.js'
import { float32Tensor, type HostTensor } from '../../../../src/numerics/tensor/host-tensor.js'
import { expectCode } from '../../../support/expect-code.js'

const MODULES = [
  { path: 'model.layers.0.self_attn.q_proj', outputSize: 8, inputSize: 6 },
  { path: 'model.layers.0.mlp.down_proj', outputSize: 6, inputSize: 10 },
]
const OPTIONS = { rank: 2, alpha: 4, seed: 7 }
const adapter = createAdapter(MODULES, OPTIONS)

/** The adapter's files with its config or its tensors changed. */
function files(config: JsonObject = {}, change: (tensors: Map<string, HostTensor>) => void = () => {}) {
  const encoded = encodeAdapter(adapter, { baseModelName: 'base' })
  const json = JSON.parse(Buffer.from(encoded.get('adapter_config.json')!).toString()) as JsonObject
  const tensors = new Map(decodeSafetensors(encoded.get('adapter_model.safetensors')!).tensors)
  change(tensors)
  return new Map([
    ['adapter_config.json', Buffer.from(JSON.stringify({ ...json, ...config }))],
    ['adapter_model.safetensors', encodeSafetensors(tensors)],
  ])
}

test('a new adapter changes nothing: B is zero, A is uniform in ±1/sqrt(in)', () => {
  const wide = createAdapter([{ path: 'm.q_proj', outputSize: 2, inputSize: 400 }], { ...OPTIONS, rank: 16 })
  const a = wide.a.get('m.q_proj')!
  expect(new Set(wide.b.get('m.q_proj'))).toEqual(new Set([0]))
  expect(a.length).toBe(16 * 400)
  expect(Math.max(...a)).toBeLessThanOrEqual(0.05)
  expect(Math.max(...a)).toBeGreaterThan(0.0495)
  expect(Math.min(...a)).toBeLessThan(-0.0495)
  expect(Math.abs(a.reduce((sum, value) => sum + value, 0) / a.length)).toBeLessThan(0.002)
})

test('the seed decides the values, the set of modules does not', () => {
  const path = MODULES[1].path
  expect(createAdapter([MODULES[1]], OPTIONS).a.get(path)).toEqual(adapter.a.get(path))
  expect(createAdapter(MODULES, { ...OPTIONS, seed: 8 }).a.get(path)).not.toEqual(adapter.a.get(path))
})

test('keys and shapes are those of PEFT', () => {
  const encoded = encodeAdapter(adapter, { baseModelName: 'org/base' })
  const { tensors } = decodeSafetensors(encoded.get('adapter_model.safetensors')!)
  expect(Object.fromEntries([...tensors].map(([key, { shape }]) => [key, shape]))).toEqual({
    'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight': [2, 6],
    'base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight': [8, 2],
    'base_model.model.model.layers.0.mlp.down_proj.lora_A.weight': [2, 10],
    'base_model.model.model.layers.0.mlp.down_proj.lora_B.weight': [6, 2],
  })
  expect(JSON.parse(Buffer.from(encoded.get('adapter_config.json')!).toString())).toMatchObject({
    base_model_name_or_path: 'org/base',
    r: 2,
    lora_alpha: 4,
    lora_dropout: 0,
    target_modules: ['down_proj', 'q_proj'],
    bias: 'none',
    task_type: 'CAUSAL_LM',
    peft_type: 'LORA',
  })
})

test('modules may have ranks of their own, rank-stabilized scales, or no adapter, as PEFT writes it', () => {
  const form = { rank: 2, alpha: 4, targets: ['down_proj', 'q_proj'], usesRslora: true, rankPattern: { down_proj: 9 } }
  const left = { path: 'model.layers.0.mlp.up_proj', outputSize: 10, inputSize: 6 }
  const shaped = createAdapter([...MODULES, left], { ...form, seed: 7 })
  expect(shaped.config).toEqual(form)
  expect([...shaped.a].map(([path, { length }]) => [path, length])).toEqual([
    ['model.layers.0.self_attn.q_proj', 12],
    ['model.layers.0.mlp.down_proj', 90],
  ])
  expect(scaleOf(form, MODULES[0].path)).toBeCloseTo(4 / Math.sqrt(2), 12)
  expect(scaleOf(form, MODULES[1].path)).toBeCloseTo(4 / 3, 12)
  const encoded = encodeAdapter(shaped, { baseModelName: 'base' })
  expect(JSON.parse(Buffer.from(encoded.get('adapter_config.json')!).toString())).toMatchObject({
    r: 2,
    rank_pattern: { down_proj: 9 },
    use_rslora: true,
  })
  expect(decodeAdapter(encoded).config).toEqual(form)
  expect(() => checkAdapterFits(decodeAdapter(encoded), MODULES)).not.toThrow()
})

test('an adapter is read back as it was written, and written to the same bytes', () => {
  const encoded = encodeAdapter(adapter, { baseModelName: 'base' })
  const decoded = decodeAdapter(encoded)
  expect(decoded.config).toEqual(adapter.config)
  expect(new Map([...decoded.a].sort())).toEqual(new Map([...adapter.a].sort()))
  expect(encodeAdapter(decoded, { baseModelName: 'base' })).toEqual(encoded)
})

test('half-precision adapters are widened', () => {
  const half: HostTensor = { dtype: 'float16', shape: [2, 6], data: new Uint16Array(12).fill(0x3c00) }
  const key = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'
  const decoded = decodeAdapter(files({}, (tensors) => tensors.set(key, half)))
  expect(decoded.a.get(MODULES[0].path)).toEqual(new Float32Array(12).fill(1))
})

test('beginnings that leave the base model as it is are taken', () => {
  for (const init of [true, false, null, 'gaussian', 'eva', 'orthogonal']) {
    expect(decodeAdapter(files({ init_lora_weights: init })).config.rank).toBe(2)
  }
})

test('an adapter fits the modules it was made for, and no others', async () => {
  checkAdapterFits(adapter, [...MODULES, { path: 'model.layers.1.mlp.down_proj', outputSize: 6, inputSize: 10 }])
  await expectCode(
    () => checkAdapterFits(adapter, [MODULES[0]]),
    'invalid_adapter',
    'layers.0.mlp.down_proj',
    ': q_proj',
  )
  const wider = [MODULES[0], { ...MODULES[1], inputSize: 11 }]
  await expectCode(() => checkAdapterFits(adapter, wider), 'invalid_adapter', '[6, 10]', '[6, 11]')
})

describe('refused', () => {
  const key = 'base_model.model.model.layers.0.self_attn.q_proj'
  const cases: [string, ReturnType<typeof files>, string, string[]][] = [
    ['another method', files({ peft_type: 'IA3' }), 'unsupported_adapter', ['IA3']],
    ['DoRA', files({ use_dora: true }), 'unsupported_adapter', ['use_dora']],
    ['scales by module', files({ alpha_pattern: { q_proj: 4 } }), 'unsupported_adapter', ['alpha_pattern']],
    [
      'weights that begin in W',
      files({ init_lora_weights: 'pissa' }),
      'unsupported_adapter',
      ['"pissa"', "base model's"],
    ],
    ['trained biases', files({ bias: 'all' }), 'unsupported_adapter', ['bias']],
    ['ranks by expression', files({ rank_pattern: { 'q_.*': 4 } }), 'unsupported_adapter', ['rank_pattern', 'q_.*']],
    ['another rank of a module', files({ rank_pattern: { q_proj: 4 } }), 'invalid_adapter', ['q_proj', 'rank 4']],
    ['no rank of a module', files({ rank_pattern: { q_proj: 0 } }), 'invalid_adapter', ['q_proj']],
    ['whole modules', files({ modules_to_save: ['lm_head'] }), 'unsupported_adapter', ['modules_to_save']],
    ['tokens trained beside it', files({ trainable_token_indices: [1] }), 'unsupported_adapter', ['trainable_token']],
    ['no rank', files({ r: null }), 'invalid_adapter', ['r null']],
    ['a rank of 0', files({ r: 0 }), 'invalid_adapter', ['r 0']],
    ['a fractional rank', files({ r: 1.5 }), 'invalid_adapter', ['1.5']],
    ['a huge rank', files({ r: 1e9 }), 'invalid_adapter', ['1000000000']],
    ['alpha as text', files({ lora_alpha: '16' }), 'invalid_adapter', ['lora_alpha']],
    ['a rank the tensors do not have', files({ r: 3 }), 'invalid_adapter', ['rank 3']],
    ['A without B', files({}, (t) => t.delete(`${key}.lora_B.weight`)), 'invalid_adapter', ['no lora_B']],
    ['B without A', files({}, (t) => t.delete(`${key}.lora_A.weight`)), 'invalid_adapter', ['no lora_A']],
    ['no tensors', files({}, (t) => t.clear()), 'invalid_adapter', ['no tensors']],
    [
      'a tensor that is no LoRA weight',
      files({}, (t) => t.set('base_model.model.lm_head.weight', float32Tensor(new Float32Array(1), [1]))),
      'invalid_adapter',
      ['lm_head'],
    ],
    [
      'NaN',
      files({}, (t) => t.set(`${key}.lora_A.weight`, float32Tensor(new Float32Array(12).fill(Number.NaN), [2, 6]))),
      'non_finite_weights',
      ['lora_A'],
    ],
    [
      'a one-dimensional A',
      files({}, (t) => t.set(`${key}.lora_A.weight`, float32Tensor(new Float32Array(12), [12]))),
      'invalid_adapter',
      ['[12]'],
    ],
  ]
  test.each(cases)('%s', async (_, broken, code, words) => {
    await expectCode(() => decodeAdapter(broken), code, ...words)
  })

  test('a missing file', async () => {
    const encoded = encodeAdapter(adapter, { baseModelName: 'base' })
    const onlyConfig = new Map([...encoded].filter(([name]) => name === 'adapter_config.json'))
    await expectCode(() => decodeAdapter(onlyConfig), 'invalid_adapter', 'adapter_model.safetensors')
  })
})
