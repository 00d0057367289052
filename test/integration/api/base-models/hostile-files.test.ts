/**
 * Base models whose files lie, as anyone may publish them: each is refused with the reason when it is added, by the reader that reads
 * it, and the server goes on. What can only be seen while text is read, a pattern that backtracks without bound, ends there.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BaseModel } from '#contract/wire/models.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { text, u32, u64 } from '../../../support/model/gguf-bytes.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const GGUF = readFileSync(join(import.meta.dirname, '../../../fixtures/gguf/tiny-llama.gguf'))
const GOOD = 'trainyard/tiny-random'

let folder: string
let tiny: string
let service: TestService
let count = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  tiny = await ensureTinyRandomModel(folder)
  service = await createTestService({ scripted: false, threads: 1 })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

interface Answer extends BaseModel {
  readonly error: (BaseModel['error'] & { readonly code: string; readonly message: string }) | null
}

/** Lays a model before the server, changed, and asks for it to be added. */
async function add(
  change: (path: string) => void,
  name = `hostile-${count}`,
): Promise<{ status: number; body: Answer }> {
  count += 1
  const path = `incoming-${count}`
  const incoming = join(service.dataDir, 'base-models', path)
  await cp(tiny, incoming, { recursive: true })
  change(incoming)
  const answer = await service.json<Answer>('/v1/preview/base-models', { json: { name, path } })
  await rm(incoming, { recursive: true, force: true })
  return answer
}

async function chat(model: string, content: string): Promise<{ status: number; body: Answer }> {
  const json = { model, messages: [{ role: 'user', content }], max_tokens: 2 }
  return await service.json<Answer>('/v1/chat/completions', { json })
}

type Case = readonly [name: string, code: string, said: string, change: (path: string) => void]

type Json = Record<string, unknown>
const readJson = (path: string): Json => JSON.parse(readFileSync(path, 'utf8')) as Json
const inFile =
  (name: string, change: (json: Json) => unknown) =>
  (path: string): void => {
    const file = join(path, name)
    const json = readJson(file)
    const changed = change(json) ?? json
    writeFileSync(file, typeof changed === 'string' ? changed : JSON.stringify(changed))
  }
const bytesOf =
  (name: string, bytes: (before: Buffer) => Uint8Array | string) =>
  (path: string): void =>
    writeFileSync(join(path, name), bytes(readFileSync(join(path, name))))
const replaced =
  (name: string, put: (file: string) => void) =>
  async (path: string): Promise<void> => {
    execFileSync('rm', ['-rf', join(path, name)])
    put(join(path, name))
  }

// weights

const WEIGHTS = 'model.safetensors'
const NORM = 'model.norm.weight'
interface Entry {
  dtype: string
  shape?: unknown[]
  data_offsets: [number, number]
}

function split(bytes: Buffer): { header: Record<string, Entry>; data: Buffer } {
  const length = Number(bytes.readBigUInt64LE(0))
  return { header: JSON.parse(bytes.toString('utf8', 8, 8 + length)), data: bytes.subarray(8 + length) }
}
function join8(header: string, data: Uint8Array): Buffer {
  return Buffer.concat([text(header), data])
}
/** Changes the description of a tensor, of all of them, or the header's text; the data stays. */
const inHeader = (change: (header: Record<string, Entry>) => unknown) =>
  bytesOf(WEIGHTS, (bytes) => {
    const { header, data } = split(bytes)
    const changed = change(header) ?? header
    return join8(typeof changed === 'string' ? changed : JSON.stringify(changed), data)
  })
const inTensor = (change: (entry: Entry) => void) =>
  inHeader((header) => {
    for (const [name, entry] of Object.entries(header)) if (name === NORM) change(entry)
  })
const valueAt = (tensor: string, element: number, value: number) =>
  bytesOf(WEIGHTS, (bytes) => {
    const { header, data } = split(bytes)
    const start = header[tensor]?.data_offsets[0] ?? 0
    data.writeFloatLE(value, start + 4 * element)
    return bytes
  })
/** In the place of the one file, which would count. */
const shards = (map: Json) => (path: string) => {
  renameSync(join(path, WEIGHTS), join(path, WHOLE))
  writeFileSync(join(path, 'model.safetensors.index.json'), JSON.stringify({ weight_map: map }))
}
const WHOLE = 'model-00001-of-00001.safetensors'

const weights: readonly Case[] = [
  ['an empty file', 'truncated_file', 'at least 8', bytesOf(WEIGHTS, () => '')],
  ['a header beyond the file', 'truncated_file', 'header', bytesOf(WEIGHTS, (all) => all.subarray(0, 100))],
  [
    'a header of 2^63 bytes',
    'invalid_safetensors',
    'header',
    bytesOf(WEIGHTS, (all) => Buffer.concat([u64(2n ** 63n), all.subarray(8)])),
  ],
  ['a header that is no JSON', 'invalid_json', 'header', inHeader(() => '{"a":')],
  ['a header that is a list', 'invalid_json', 'object', inHeader(() => '[]')],
  ['a header of nested lists', 'invalid_json', 'header', inHeader(() => '['.repeat(100_000))],
  [
    'a tensor twice',
    'duplicate_key',
    NORM,
    inHeader((header) => JSON.stringify(header).replace('{', `{"${NORM}":{},`)),
  ],
  ['data that ends early', 'truncated_file', 'ends at', bytesOf(WEIGHTS, (all) => all.subarray(0, -4))],
  [
    'data behind the last tensor',
    'invalid_safetensors',
    '',
    bytesOf(WEIGHTS, (all) => Buffer.concat([all, Buffer.alloc(4)])),
  ],
  ['a size that does not fit the shape', 'invalid_safetensors', NORM, inTensor((entry) => (entry.shape = [63]))],
  ['a shape of 2^53', 'invalid_safetensors', NORM, inTensor((entry) => (entry.shape = [2 ** 53, 64]))],
  ['a negative size', 'invalid_safetensors', NORM, inTensor((entry) => (entry.shape = [-64]))],
  ['a size that is no integer', 'invalid_safetensors', NORM, inTensor((entry) => (entry.shape = [0.5]))],
  ['nine dimensions', 'invalid_safetensors', NORM, inTensor((entry) => (entry.shape = [64, 1, 1, 1, 1, 1, 1, 1, 1]))],
  ['offsets that go back', 'invalid_safetensors', NORM, inTensor((entry) => entry.data_offsets.reverse())],
  ['offsets before the data', 'invalid_safetensors', NORM, inTensor((entry) => (entry.data_offsets = [-256, 0]))],
  [
    'two tensors in one place',
    'invalid_safetensors',
    '',
    inHeader((header) => {
      const entries = Object.values(header).filter(({ shape }) => shape?.length === 1)
      for (const entry of entries) entry.data_offsets = entries[0]?.data_offsets ?? [0, 256]
    }),
  ],
  ['an element type that is not known', 'unsupported_dtype', 'F8_E8M0', inTensor((entry) => (entry.dtype = 'F8_E8M0'))],
  ['integers for weights', 'unsupported_dtype', NORM, inTensor((entry) => (entry.dtype = 'I32'))],
  [
    'a tensor too few',
    'missing_tensor',
    NORM,
    inHeader((header) => JSON.stringify(header).replace(NORM, 'model.norm.weight2')),
  ],
  ['a tensor of another shape', 'invalid_shape', NORM, inTensor((entry) => (entry.shape = [8, 8]))],
  ['a NaN', 'non_finite_weights', `"${NORM}" has NaN at element 3`, valueAt(NORM, 3, Number.NaN)],
  [
    'an infinity',
    'non_finite_weights',
    `"${NORM}" has -Infinity at element 63`,
    valueAt(NORM, 63, Number.NEGATIVE_INFINITY),
  ],
  [
    'a pickle alone',
    'pickle_refused',
    'pytorch_model.bin',
    (path) => {
      execFileSync('mv', [join(path, WEIGHTS), join(path, 'pytorch_model.bin')])
    },
  ],
  ['a directory for weights', 'not_a_file', WEIGHTS, replaced(WEIGHTS, (file) => mkdirSync(file))],
  ['a pipe for weights', 'not_a_file', WEIGHTS, replaced(WEIGHTS, (file) => execFileSync('mkfifo', [file]))],
  ['a device for weights', 'not_a_file', WEIGHTS, replaced(WEIGHTS, (file) => symlinkSync('/dev/zero', file))],
  ['a link to nothing', 'file_not_found', WEIGHTS, replaced(WEIGHTS, (file) => symlinkSync('/no/such/file', file))],
  ['shards in other folders', 'invalid_index', '../x.safetensors', shards({ [NORM]: '../x.safetensors' })],
  ['shards by absolute paths', 'invalid_index', '/etc/x.safetensors', shards({ [NORM]: '/etc/x.safetensors' })],
  ['shards that are not there', 'invalid_index', 'a.safetensors', shards({ [NORM]: 'a.safetensors' })],
  ['shards that are pickles', 'pickle_refused', 'a.bin', shards({ [NORM]: 'a.bin' })],
  ['a shard without its tensor', 'invalid_index', 'none', shards({ none: WHOLE })],
]

// configurations

const config = (changes: Json) => inFile('config.json', (json) => Object.assign(json, changes))
/** Field, value, and how the message says it where not by the field's name. */
const outOfRange: readonly (readonly [field: string, value: unknown, said?: string])[] = [
  ['hidden_size', 0],
  ['hidden_size', -64],
  ['hidden_size', 1e12],
  ['hidden_size', '64'],
  ['hidden_size', 64.5],
  ['num_hidden_layers', 0],
  ['num_hidden_layers', 1e9],
  ['num_attention_heads', 0],
  ['num_key_value_heads', 3, 'key/value heads'],
  ['head_dim', 15, 'head size'],
  ['intermediate_size', -1],
  ['vocab_size', 2 ** 40],
  ['max_position_embeddings', 0],
  ['rms_norm_eps', -1],
  ['rope_theta', 0],
  ['rope_theta', 'x'],
]
const configurations: readonly Case[] = [
  [
    'a family that is not known',
    'unknown_architecture',
    'mamba',
    config({ model_type: 'mamba', architectures: ['Mamba'] }),
  ],
  ['an activation that is not known', 'unsupported_model', 'relu6', config({ hidden_act: 'relu6' })],
  ['scaling that is not known', 'unsupported_model', 'none such', config({ rope_scaling: { rope_type: 'none such' } })],
  ['no JSON', 'invalid_json', 'config.json', bytesOf('config.json', () => '{')],
  ['a list', 'invalid_json', 'config.json', bytesOf('config.json', () => '[]')],
  ['deep nesting', 'invalid_json', 'config.json', bytesOf('config.json', () => '{"a":'.repeat(100_000))],
  [
    'a field twice',
    'duplicate_key',
    'hidden_size',
    bytesOf('config.json', () => '{"hidden_size":64,"hidden_size":32}'),
  ],
  ['no UTF-8', 'invalid_utf8', 'config.json', bytesOf('config.json', () => new Uint8Array([0x7b, 0xff, 0x7d]))],
  ['eleven megabytes', 'file_too_large', 'config.json', (path) => truncateSync(join(path, 'config.json'), 11e6)],
  [
    'a link to a file of the machine',
    'invalid_json',
    'config.json',
    replaced('config.json', (file) => symlinkSync('/etc/passwd', file)),
  ],
  ...outOfRange.map(([field, value, said = field]): Case => {
    return [`${field} ${JSON.stringify(value)}`, 'invalid_config', said, config({ [field]: value })]
  }),
]

// tokenizers

const TOKENIZER = 'tokenizer.json'
const tokenizer = (change: (json: Json & { model: Json }) => unknown) =>
  inFile(TOKENIZER, (json) => change(json as Json & { model: Json }))
const pattern = (regex: string) =>
  tokenizer((json) => {
    const pre = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false }
    json['pre_tokenizer'] = { type: 'Sequence', pretokenizers: [pre, { type: 'ByteLevel', use_regex: false }] }
  })
const tokenizers: readonly Case[] = [
  ['none', 'tokenizer_not_found', TOKENIZER, replaced(TOKENIZER, () => undefined)],
  ['no JSON', 'invalid_tokenizer_file', TOKENIZER, bytesOf(TOKENIZER, () => '{')],
  ['a list', 'invalid_tokenizer_file', TOKENIZER, bytesOf(TOKENIZER, () => '[]')],
  ['129 MiB', 'tokenizer_too_large', TOKENIZER, (path) => truncateSync(join(path, TOKENIZER), 129 * 2 ** 20)],
  // twice as many took 2.5 GB when they were parsed, and the server with them
  [
    'twenty million empty objects',
    'tokenizer_too_large',
    '40000003 values',
    replaced(TOKENIZER, (file) => writeFileSync(file, `{"a":[${'{},'.repeat(20_000_000)}{}]}`)),
  ],
  [
    'a million and one tokens',
    'tokenizer_too_large',
    '1000001 tokens',
    tokenizer((json) => {
      json.model['vocab'] = Array.from({ length: 1_000_001 }, () => ['a', 0])
    }),
  ],
  [
    'three million and one merges',
    'tokenizer_too_large',
    '3000001 merges',
    tokenizer((json) => {
      json.model['merges'] = Array.from({ length: 3_000_001 }, () => 'a b')
    }),
  ],
  [
    'a token id of a billion',
    'invalid_tokenizer_file',
    '0 to 999999',
    tokenizer((json) => void Object.assign(json.model['vocab'] as Json, { far: 1e9 })),
  ],
  [
    'merges of tokens that are not there',
    'invalid_tokenizer_file',
    'merges[0]',
    tokenizer((json) => void Object.assign(json.model, { merges: [['no', 'such']] })),
  ],
  [
    'a decoder that is not known',
    'unsupported_tokenizer',
    'Odd',
    tokenizer((json) => Object.assign(json, { decoder: { type: 'Odd' } })),
  ],
  ['a pattern that is none', 'unsupported_tokenizer', TOKENIZER, pattern('(')],
  [
    'a template that is none',
    'invalid_chat_template',
    'template',
    inFile('tokenizer_config.json', (json) => {
      json['chat_template'] = '{% for %}'
    }),
  ],
  [
    'a template that needs what is not there',
    'unsupported_chat_template',
    'line 2: {{ messages | frobnicate }}',
    inFile('tokenizer_config.json', (json) => {
      json['chat_template'] = 'a\r\n{{ messages | frobnicate }}'
    }),
  ],
]

// GGUF

const gguf = (bytes: (good: Buffer) => Uint8Array) => (path: string) => {
  execFileSync('rm', ['-rf', path])
  writeFileSync(path, bytes(Buffer.from(GGUF)))
}
const field = (offset: number, value: bigint) =>
  gguf((good) => Buffer.concat([good.subarray(0, offset), u64(value), good.subarray(offset + 8)]))
const ggufs: readonly Case[] = [
  ['nothing behind the magic', 'truncated_file', '', gguf((good) => good.subarray(0, 4))],
  ['half of its head', 'truncated_file', '', gguf((good) => good.subarray(0, 400))],
  ['half of its data', 'truncated_file', '', gguf((good) => good.subarray(0, -64))],
  ['another magic', 'unknown_format', '', gguf((good) => Buffer.concat([Buffer.from('GGML'), good.subarray(4)]))],
  [
    'version 9',
    'unsupported_gguf_version',
    '9',
    gguf((good) => Buffer.concat([good.subarray(0, 4), u32(9), good.subarray(8)])),
  ],
  ['2^60 tensors', 'invalid_gguf', 'tensors', field(8, 2n ** 60n)],
  ['2^60 keys', 'invalid_gguf', 'keys', field(16, 2n ** 60n)],
  ['a key of 2^60 bytes', 'invalid_gguf', 'key', field(24, 2n ** 60n)],
]

describe.each([
  ['weights', weights],
  ['a configuration', configurations],
  ['a tokenizer', tokenizers],
  ['a GGUF file', ggufs],
] as const)('%s with', (_, cases) => {
  it.each(cases)('%s is refused: %s', async (_name, code, said, change) => {
    const { status, body } = await add(change)
    expect([status >= 400 && status < 500, body.error?.code], JSON.stringify(body)).toEqual([true, code])
    expect(body.error?.message).toContain(said)
  })
})

describe('behind all of them', () => {
  it('nothing was taken in, and the server answers and takes a good model', async () => {
    expect((await service.json<string[]>('/v1/preview/base-models')).body).toEqual([GOOD])
    expect((await add(() => undefined, 'good')).status).toBe(200)
    for (const model of [GOOD, 'good']) expect((await chat(model, 'Hi.')).status).toBe(200)
    expect(existsSync(join(service.dataDir, 'base-models', 'incoming-1'))).toBe(false)
  })

  it('links of a model cache are followed', async () => {
    const linked = replaced(WEIGHTS, (file) => symlinkSync(join(tiny, WEIGHTS), file))
    expect((await add(linked, 'linked')).status).toBe(200)
  })

  it('a pattern that backtracks without bound ends, by name, and others are answered', async () => {
    expect((await add(pattern('(?:(?:a+)+)+$|[^a]+'), 'slow')).status).toBe(200)
    expect((await chat('slow', 'b b b')).status).toBe(200)
    // small texts are cut by the engine itself, large ones in its thread
    for (const text of [`${'a'.repeat(60)}b`, `${'a'.repeat(60)}b${'c '.repeat(10_000)}`]) {
      const slow = chat('slow', text)
      expect((await chat(GOOD, 'Hi.')).status).toBe(200)
      const { status, body } = await slow
      expect(status, JSON.stringify(body)).toBe(400)
      expect(body.error?.message).toContain("regular expression of the model's tokenizer")
      expect((await chat('slow', 'b b b')).status).toBe(200)
    }
  })
})
