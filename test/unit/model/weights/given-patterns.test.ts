/** Ranks and scales of an adapter by pattern: of the names that its file has, and of those that its modules have here. */
import { expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { encodeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { readGivenAdapter } from '#plugins/export/given-adapter.js'

const HERE = 'model.layers.0.self_attn.q_proj'
const BY_FILE = 'model.language_model.layers.0.self_attn.q_proj'

/** The one change of an adapter of a model for images and text, of rank 3. */
function changeWith(config: JsonObject, given = BY_FILE) {
  const factor = (side: string, shape: number[]) =>
    [`base_model.model.${given}.lora_${side}.weight`, float32Tensor(new Float32Array(12).fill(1), shape)] as const
  const weights = encodeSafetensors(new Map([factor('A', [3, 4]), factor('B', [4, 3])]))
  const settings = { peft_type: 'LORA', r: 8, lora_alpha: 16, target_modules: ['q_proj'], ...config }
  return readGivenAdapter(settings, weights, 'adapter_model.safetensors').changes.get(HERE)
}

test.each([
  ['the name in the file', BY_FILE],
  ['an expression over it', 'model\\.language_model\\.layers\\.0\\..*'],
  ['its end', 'language_model.layers.0.self_attn.q_proj'],
  ['the name here', HERE],
])('%s counts', (_, pattern) => {
  expect(changeWith({ rank_pattern: { [pattern]: 3 }, alpha_pattern: { [pattern]: 6 } })).toMatchObject({
    rank: 3,
    scale: 2,
  })
})

test('the name in the file counts before the name here', () => {
  const patterns = { [`^${HERE.replaceAll('.', '\\.')}`]: 9, 'language_model.layers.0.self_attn.q_proj': 6 }
  expect(changeWith({ r: 3, alpha_pattern: patterns })?.scale).toBe(2)
  expect(changeWith({ r: 3, alpha_pattern: patterns }, HERE)?.scale).toBe(3)
})

test('a pattern that names neither does not', () => {
  expect(() => changeWith({ rank_pattern: { 'visual.layers.0.self_attn.q_proj': 3 } })).toThrow('expected rank 8')
})
