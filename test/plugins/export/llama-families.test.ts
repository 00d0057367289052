/**
 * Families as GGUF in llama.cpp: after prompts longer than the sliding window, tiny random models with spark's tokenizer want our
 * engine's next token. llama.cpp keeps keys and values in float16, which may turn a near tie: one prompt of eight may differ; a wrong
 * rotation, window or order of rows makes all differ. llama.cpp in `.cache/llama-node` (`.ci/run` installs it); skipped where there is none.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { fromHfConfig } from '#model/architectures/hf-config.js'
import { prepareBaseModel } from '#model/architectures/prepare.js'
import { decoderTensorShapes } from '#model/architectures/registry.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { writeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { engineFor, GREEDY, generate } from '../../integration/inference/engine-harness.js'
import { formulaTensor, readGolden } from '../../support/model/decoder-goldens.js'
import { writeExport } from '../../support/model/export-fixture.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const ROOT = join(import.meta.dirname, '../../..')
const LLAMA = join(ROOT, '.cache/llama-node/node_modules')
const PROMPTS = 8
const GOLDENS = readGolden<Readonly<Record<string, { readonly config: JsonObject }>>>('families.json')

const SIZES = { vocab_size: 4096, hidden_size: 128, intermediate_size: 128, head_dim: 32, bos_token_id: 2 }
/** What the goldens have otherwise than GGUF can say it. */
const CHANGES: Readonly<Record<string, JsonObject>> = {
  gemma3: {
    ...{ num_hidden_layers: 6, sliding_window: 16, query_pre_attn_scalar: 32 },
    layer_types: Array.from({ length: 6 }, (_, layer) => (layer === 5 ? 'full_attention' : 'sliding_attention')),
  },
  'llama-yarn': {
    max_position_embeddings: 256,
    rope_scaling: { rope_type: 'yarn', factor: 8, original_max_position_embeddings: 32 },
  },
  'llama-dynamic': { max_position_embeddings: 256 },
  'llama-longrope': { rope_scaling: null },
  'llama-3.2': {
    rope_theta: 500_000,
    rope_scaling: {
      ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
      original_max_position_embeddings: 8192,
    },
  },
}

async function writeModel(family: string): Promise<string> {
  const directory = await temporaryDirectory()
  const config = { ...GOLDENS[family]?.config, ...SIZES, ...CHANGES[family] }
  const tensors = new Map<string, HostTensor>()
  for (const [name, shape] of decoderTensorShapes(fromHfConfig(config))) {
    const count = shape.reduce((product, size) => product * size, 1)
    const [scale, offset] = shape.length === 2 ? [0.3, 0] : [0.2, family === 'gemma3' || name.endsWith('bias') ? 0 : 1]
    tensors.set(name, float32Tensor(formulaTensor(name, count, scale, offset), shape))
  }
  await writeSafetensors(join(directory, 'model.safetensors'), tensors)
  await writeFile(join(directory, 'config.json'), JSON.stringify(config))
  for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
    await copyFile(join(sparkDirectory(), name), join(directory, name))
  }
  return directory
}

test.skipIf(!existsSync(LLAMA)).each(Object.keys(GOLDENS))(
  '%s: llama.cpp continues as our engine does',
  async (family) => {
    const source = await writeModel(family)
    const engine = await engineFor(await prepareBaseModel(source, join(source, 'prepared'), ['f32']))
    const prompts = Array.from({ length: PROMPTS }, (__, seed) =>
      Array.from({ length: 40 }, (_, i) => 10 + ((i * 31 + seed * 577) % 4000)),
    )
    const rules = { ...GREEDY, maxTokens: 1 }
    const ours = await Promise.all(prompts.map(async (prompt) => (await generate(engine, prompt, rules)).ids()))
    await engine.close()
    await writeExport(join(source, 'gguf'), { format: 'gguf', sourcePath: source, storage: 'f32' })
    const model = join(source, 'gguf', 'm-step1-f32.gguf')
    const job = JSON.stringify({ model, lora: null, prompts, count: 1, text: '' })
    const script = join(ROOT, 'test/support/model/llama-cpp-greedy.mjs')
    const { stdout } = await promisify(execFile)(process.execPath, [script, LLAMA, job])
    const { tokens } = JSON.parse(stdout.slice(stdout.lastIndexOf('{"tokens"'))) as { tokens: number[][] }
    const equal = tokens.filter(([token], i) => token === ours[i]?.[0]).length
    expect(equal).toBeGreaterThanOrEqual(PROMPTS - 1)
  },
  300_000,
)
