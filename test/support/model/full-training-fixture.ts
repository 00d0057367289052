/**
 * A decoder of some thousand weights that has every kind of them, packed rows for it, and its full-weight trainer.
 */
import { onTestFinished } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { fromHfConfig } from '#model/architectures/hf-config.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { perToken, type Row, toRowBatch } from '#training/trainer/row-batch.js'
import {
  createFullTrainer,
  type FullStepOptions,
  type FullTrainer,
  type FullTrainingState,
  type MatrixOptimizer,
} from '../../spark/training/full-trainer.js'
import { temporaryDirectory } from '../temporary-directory.js'

/** Grouped heads, biases everywhere, a head of its own. */
export const TINY_HF_CONFIG = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: 24,
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 8,
  max_position_embeddings: 64,
  rope_theta: 10_000,
  rms_norm_eps: 1e-5,
  hidden_act: 'silu',
  attention_bias: true,
  mlp_bias: true,
  tie_word_embeddings: false,
}

export const TINY_CONFIG = fromHfConfig(TINY_HF_CONFIG)

/** Both ways to move matrices. */
export const OPTIMIZERS: readonly MatrixOptimizer[] = ['adamw', 'muon']

/** Options of a step; the large epsilon keeps AdamW's first updates smooth where gradients are near 0. */
export const STEP: FullStepOptions = { learningRate: 0.01, weightDecay: 0.1, epsilon: 1e-3, maxGradientNorm: 1 }

/** Random sequences of these lengths in one row, each a segment with positions of its own; every token trains. */
export function packedRow(seed: string, lengths: readonly number[]): Row {
  const rng = createRng(seed)
  const groups = lengths.flatMap((length, segment) => Array<number>(length).fill(segment))
  return {
    tokens: Int32Array.from(groups, () => rng.integer(TINY_CONFIG.vocabularySize)),
    positions: Int32Array.from(lengths.flatMap((length) => Array.from({ length }, (_, t) => t))),
    groupIds: Int32Array.from(groups),
    parentIds: Int32Array.from(groups),
    lossMask: new Uint8Array(groups.length).fill(1),
  }
}

/** Micro-batches that share a denominator: trained tokens of all of them. */
export function microBatchesOf(batches: readonly (readonly Row[])[]): MicroBatch[] {
  const laid = batches.map((rows) => toRowBatch(rows))
  const count = laid.reduce((sum, { trained }) => sum + trained.length, 0)
  const denominator = float32Tensor(Float32Array.of(count), [])
  return laid.map((batch) => ({ batch, lossInputs: { denominator, weight: perToken(batch, () => 1) } }))
}

/** Opens a trainer in a directory of its own; the test's end releases it. */
export async function openTinyTrainer(
  state: FullTrainingState,
  options: { readonly isRecomputed?: boolean; readonly runtime?: Runtime } = {},
): Promise<FullTrainer> {
  const { isRecomputed = false, runtime = createOrtRuntime() } = options
  const frequencies = rotaryFrequencies(TINY_CONFIG.rotary, TINY_CONFIG.headSize)
  const session = { runtime, directory: await temporaryDirectory(), frequencies, threads: 1 }
  const trainer = await createFullTrainer({ config: TINY_CONFIG, state, session, isRecomputed })
  onTestFinished(() => trainer.release())
  return trainer
}
