/**
 * The shape of `trainyard/spark`, as its `config.json` says it: Llama with a tied embedding.
 */

/** Hugging Face configuration. @param {number} vocabularySize */
export const sparkConfig = (vocabularySize) => ({
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: vocabularySize,
  hidden_size: 256,
  intermediate_size: 640,
  num_hidden_layers: 5,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  max_position_embeddings: 2048,
  rope_theta: 10_000,
  rms_norm_eps: 1e-5,
  hidden_act: 'silu',
  attention_bias: false,
  mlp_bias: false,
  tie_word_embeddings: true,
  eos_token_id: 2,
  pad_token_id: 0,
  torch_dtype: 'float16',
})
