/**
 * GGUF names and the row order of Llama's queries and keys.
 */
import { expect, test } from 'vitest'
import { toHfName, unpermuteRows } from '../../../../../src/model/weights/gguf/names.js'

test.each([
  ['token_embd.weight', 'model.embed_tokens.weight'],
  ['output_norm.weight', 'model.norm.weight'],
  ['output.weight', 'lm_head.weight'],
  ['blk.0.attn_norm.weight', 'model.layers.0.input_layernorm.weight'],
  ['blk.12.attn_q.weight', 'model.layers.12.self_attn.q_proj.weight'],
  ['blk.12.attn_k.bias', 'model.layers.12.self_attn.k_proj.bias'],
  ['blk.3.attn_output.weight', 'model.layers.3.self_attn.o_proj.weight'],
  ['blk.3.attn_q_norm.weight', 'model.layers.3.self_attn.q_norm.weight'],
  ['blk.3.ffn_norm.weight', 'model.layers.3.post_attention_layernorm.weight'],
  ['blk.3.ffn_gate.weight', 'model.layers.3.mlp.gate_proj.weight'],
  ['blk.3.ffn_down.weight', 'model.layers.3.mlp.down_proj.weight'],
])('%s is %s', (ggufName, hfName) => {
  expect(toHfName(ggufName)).toBe(hfName)
})

test.each(['blk.0.ffn_gate_exps.weight', 'blk.x.attn_q.weight', 'rope_freqs.weight', 'blk.0.attn_q.weight.extra'])(
  '%s keeps its name',
  (name) => {
    expect(toHfName(name)).toBe(name)
  },
)

test('interleaved rows go back to two halves per head', () => {
  // Two heads of size 6, one column: pairs (0,3), (1,4), (2,5) lie side by side in the file.
  const stored = Float32Array.of(0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15)
  expect([...unpermuteRows(stored, 2, 1)]).toEqual([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15])
})

test('rows move whole', () => {
  const stored = Float32Array.of(0, 0.5, 2, 2.5, 1, 1.5, 3, 3.5)
  expect([...unpermuteRows(stored, 1, 2)]).toEqual([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])
})
