/**
 * GGUF tensor names as Hugging Face names, and the row order of Llama's query and key weights.
 *
 * Source: https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/tensor_mapping.py, and `LlamaModel.permute` of
 * llama.cpp's converter `convert_hf_to_gguf`.
 */

const OUTER_NAMES: ReadonlyMap<string, string> = new Map([
  ['token_embd.weight', 'model.embed_tokens.weight'],
  ['output_norm.weight', 'model.norm.weight'],
  ['output.weight', 'lm_head.weight'],
])

const BLOCK_NAMES: ReadonlyMap<string, string> = new Map([
  ['attn_norm', 'input_layernorm'],
  ['attn_q', 'self_attn.q_proj'],
  ['attn_k', 'self_attn.k_proj'],
  ['attn_v', 'self_attn.v_proj'],
  ['attn_output', 'self_attn.o_proj'],
  ['attn_q_norm', 'self_attn.q_norm'],
  ['attn_k_norm', 'self_attn.k_norm'],
  ['ffn_norm', 'post_attention_layernorm'],
  ['ffn_gate', 'mlp.gate_proj'],
  ['ffn_up', 'mlp.up_proj'],
  ['ffn_down', 'mlp.down_proj'],
])

/** The Hugging Face name of a GGUF tensor, or the name itself when there is none. @param architecture `general.architecture` */
export function toHfName(ggufName: string, architecture = 'llama'): string {
  const outer = OUTER_NAMES.get(ggufName)
  if (outer !== undefined) return outer
  const match = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(ggufName)
  const block = match?.[2] === undefined ? undefined : blockNames(architecture).get(match[2])
  return match === null || block === undefined ? ggufName : `model.layers.${match[1]}.${block}.${match[3]}`
}

/** What Gemma 3 names otherwise: it has norms before and after. */
const GEMMA3_BLOCK_NAMES: ReadonlyMap<string, string> = new Map([
  ...BLOCK_NAMES,
  ['post_attention_norm', 'post_attention_layernorm'],
  ['ffn_norm', 'pre_feedforward_layernorm'],
  ['post_ffw_norm', 'post_feedforward_layernorm'],
])

function blockNames(architecture: string): ReadonlyMap<string, string> {
  return architecture === 'gemma3' ? GEMMA3_BLOCK_NAMES : BLOCK_NAMES
}

const OUTER_GGUF_NAMES = new Map([...OUTER_NAMES].map(([gguf, hf]) => [hf, gguf]))

/** The GGUF name of a Hugging Face tensor; null when there is none. */
export function toGgufName(hfName: string, architecture: string): string | null {
  const outer = OUTER_GGUF_NAMES.get(hfName)
  if (outer !== undefined) return outer
  const match = /^model\.layers\.(\d+)\.([\w.]+)\.(weight|bias)$/.exec(hfName)
  const block = [...blockNames(architecture)].find(([, hf]) => hf === match?.[2])?.[0]
  return match === null || block === undefined ? null : `blk.${match[1]}.${block}.${match[3]}`
}

/** The inverse of `unpermuteRows`: Hugging Face's order to llama.cpp's; a fresh array. */
export function permuteRows(values: Float32Array, headCount: number, rowLength: number): Float32Array {
  const headSize = values.length / headCount / rowLength
  const halfSize = headSize / 2
  const out = new Float32Array(values.length)
  for (let head = 0; head < headCount; head++) {
    for (let i = 0; i < headSize; i++) {
      const from = (head * headSize + i) * rowLength
      const to = (head * headSize + 2 * (i % halfSize) + Math.floor(i / halfSize)) * rowLength
      out.set(values.subarray(from, from + rowLength), to)
    }
  }
  return out
}

/**
 * Puts the rows of a Llama query or key weight back into Hugging Face's order.
 *
 * llama.cpp rotates neighbouring pairs (2i, 2i+1) where Hugging Face rotates (i, i+D/2), so its converter interleaves the
 * two halves of each head; this undoes it. Works on biases too (`rowLength` 1).
 *
 * @param values [heads*D, rowLength] as stored
 * @returns a fresh array in Hugging Face's order
 */
export function unpermuteRows(values: Float32Array, headCount: number, rowLength: number): Float32Array {
  const headSize = values.length / headCount / rowLength
  const halfSize = headSize / 2
  const out = new Float32Array(values.length)
  for (let head = 0; head < headCount; head++) {
    for (let i = 0; i < headSize; i++) {
      const from = (head * headSize + 2 * (i % halfSize) + Math.floor(i / halfSize)) * rowLength
      out.set(values.subarray(from, from + rowLength), (head * headSize + i) * rowLength)
    }
  }
  return out
}
