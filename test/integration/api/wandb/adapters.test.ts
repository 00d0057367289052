/**
 * Adapters that a client commits as artifacts: what becomes a checkpoint fits its model and can be computed, whatever door it came
 * through. Also manifests that nobody's client writes. Real export process and engine.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { type AdapterWeights, createAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { encodeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const BASE = 'trainyard/tiny-random'
const CONFIG = 'adapter_config.json'
const WEIGHTS = 'adapter_model.safetensors'

let service: TestService
let model: string
let good: AdapterWeights
let counter = 0

beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
  model = await service.createModel('m')
  const source = await openWeights(await ensureTinyRandomModel(join(service.dataDir, 'tiny')))
  good = createAdapter(adapterModules(decoderConfigOf(source)), { rank: 2, alpha: 4, seed: 1 })
  await source.close()
})
afterAll(() => service.dispose())

interface Answer {
  readonly data: Readonly<Record<string, unknown>> | null
  readonly errors?: readonly { readonly message: string; readonly extensions: { readonly code: string } }[]
}
type Files = ReadonlyMap<string, Uint8Array>

async function mutate(name: string, input: object, selection: string): Promise<Answer & { readonly status: number }> {
  const query = `mutation M($input: I!) { ${name}(input: $input) { ${selection} } }`
  const { status, body } = await service.json<Answer>('/graphql', { json: { query, variables: { input } } })
  return { status, ...(body as unknown as Answer) }
}

const md5 = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('base64')

/** The first `uploadUrl` in an answer, below this server. */
function uploadPath(answer: Answer): string {
  const url = /"uploadUrl":"([^"]+)"/.exec(JSON.stringify(answer.data))?.[1] ?? ''
  return url.slice(service.url.length)
}

async function put(path: string, body: Uint8Array): Promise<number> {
  return (await service.fetch(path, { method: 'PUT', body })).status
}

async function begin(collection: string, type: string): Promise<string> {
  counter += 1
  const input = {
    entityName: 'local',
    projectName: 'tests',
    artifactCollectionName: collection,
    artifactTypeName: type,
    digest: `d${counter}`,
  }
  const answer = await mutate('createArtifact', input, 'artifact { id }')
  return /"id":"([^"]+)"/.exec(JSON.stringify(answer.data))?.[1] ?? ''
}

async function putManifest(id: string, manifest: Uint8Array): Promise<number> {
  const target = await mutate('createArtifactManifest', { artifactID: id }, 'artifactManifest { file { uploadUrl } }')
  return put(uploadPath(target), manifest)
}

/** Commits files as an artifact of type `lora` under the model's name. */
async function commit(files: Files): Promise<Answer & { readonly status: number }> {
  const id = await begin('m', 'lora')
  for (const [name, bytes] of files) {
    const target = await mutate(
      'createArtifactFiles',
      { artifactFiles: [{ artifactID: id, name, md5: md5(bytes) }] },
      'files { edges { node { uploadUrl } } }',
    )
    expect(await put(uploadPath(target), bytes)).toBe(200)
  }
  const contents = Object.fromEntries([...files].map(([name, bytes]) => [name, { digest: md5(bytes) }]))
  const manifest = JSON.stringify({ version: 1, storagePolicy: 'wandb-storage-policy-v1', contents })
  expect(await putManifest(id, Buffer.from(manifest))).toBe(200)
  return mutate('commitArtifact', { artifactID: id }, 'artifact { state }')
}

const encode = (weights: AdapterWeights, baseModelName = BASE): Files => encodeAdapter(weights, { baseModelName })

function withConfig(files: Files, change: object | string): Files {
  const config: unknown = JSON.parse(new TextDecoder().decode(files.get(CONFIG)))
  const text = typeof change === 'string' ? change : JSON.stringify({ ...(config as object), ...change })
  return new Map([...files, [CONFIG, Buffer.from(text)]])
}

const DOWN = 'model.layers.0.mlp.down_proj'
function withValues(side: 'a' | 'b', path: string, values: Float32Array): AdapterWeights {
  return { ...good, [side]: new Map([...good[side], [path, values]]) }
}

const checkpoints = async (): Promise<unknown> => (await service.json(`/v1/preview/models/${model}/checkpoints`)).body

const chat = (name: string) =>
  service.json<{ choices: { message: { content: string } }[] }>('/v1/chat/completions', {
    json: { model: name, messages: [{ role: 'user', content: 'Count.' }], max_tokens: 4, temperature: 0 },
  })

const filled = (side: 'a' | 'b', value: number): Float32Array =>
  new Float32Array(good[side].get(DOWN)?.length ?? 0).fill(value)
const renamed = (path: string): AdapterWeights => {
  const move = (values: ReadonlyMap<string, Float32Array>) =>
    new Map([...values].map(([name, data]) => [name === DOWN ? path : name, data]))
  return { ...good, a: move(good.a), b: move(good.b) }
}

describe('an adapter that a client commits', () => {
  it.each<[string, () => Files, RegExp]>([
    [
      'other shapes',
      () => encode(withValues('b', DOWN, new Float32Array((good.b.get(DOWN)?.length ?? 0) * 2))),
      /down_proj/,
    ],
    ['a module the base lacks', () => encode(renamed('model.layers.99.mlp.down_proj')), /layers\.99\.mlp\.down_proj/],
    [
      'values that only overflow later',
      () => encode(withValues('a', DOWN, filled('a', 3e38))),
      /3e\+38 in .*down_proj\.lora_A/,
    ],
    [
      'values whose products overflow',
      () => encode({ ...withValues('b', DOWN, filled('b', 6e4)), a: withValues('a', DOWN, filled('a', 100)).a }),
      /down_proj.*65504/,
    ],
    ['an alpha beyond all numbers', () => withConfig(encode(good), { lora_alpha: 1e300 }), /lora_alpha 1e\+300/],
    ['NaN', () => encode(withValues('b', DOWN, filled('b', Number.NaN))), /NaN/],
    ['another base model', () => encode(good, 'org/other'), /org\/other/],
    ['no base model', () => withConfig(encode(good), { base_model_name_or_path: null }), /names no base model/],
    ['a rank of 0', () => withConfig(encode(good), { r: 0 }), /r 0/],
    ['no tensors', () => new Map([...encode(good), [WEIGHTS, encodeSafetensors(new Map())]]), /no tensors/],
    [
      'tensors that are no adapter',
      () =>
        new Map([
          ...encode(good),
          [WEIGHTS, encodeSafetensors(new Map([['x', float32Tensor(new Float32Array(1), [1])]]))],
        ]),
      /unknown tensor "x"/,
    ],
    [
      'a configuration of a million brackets',
      () => withConfig(encode(good), `{"r":${'['.repeat(400_000)}${']'.repeat(400_000)}}`),
      /deeper than/,
    ],
    ['a configuration of many megabytes', () => withConfig(encode(good), `{"r":"${'x'.repeat(3e6)}"}`), /at most/],
    [
      'a header of two gigabytes',
      () => new Map([...encode(good), [WEIGHTS, Buffer.from('000000800000000000', 'hex')]]),
      /header/,
    ],
  ])('with %s is refused and changes nothing', async (_, files, message) => {
    const before = await checkpoints()
    const answer = await commit(files())
    expect([answer.status, answer.errors?.length]).toEqual([200, 1])
    expect(answer.errors?.[0]?.message).toMatch(message)
    expect(answer.errors?.[0]?.message.length).toBeLessThan(2500)
    expect(await checkpoints()).toEqual(before)
    expect((await chat('tests/m')).status).toBe(200)
  })

  it('becomes the next step, in one form with what from_adapter makes, and answers as itself', async () => {
    const noisy = withValues('b', DOWN, filled('b', 0.5))
    const partial: AdapterWeights = {
      config: good.config,
      a: new Map([[DOWN, noisy.a.get(DOWN) ?? new Float32Array()]]),
      b: new Map([[DOWN, noisy.b.get(DOWN) ?? new Float32Array()]]),
    }
    expect(await commit(encode(partial))).toMatchObject({ status: 200, data: expect.anything() })
    const { body: files } = await service.json<{ files: { name: string; sha256: string }[] }>(
      `/v1/preview/models/${model}/checkpoints/1/files`,
    )
    const upload = async (name: string): Promise<string> => {
      const form = new FormData()
      form.set('file', new Blob([new Uint8Array(encode(partial).get(name) ?? [])]), name)
      return ((await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }).id
    }
    const from = { adapter_config: await upload(CONFIG), adapter_model: await upload(WEIGHTS) }
    const { body: other } = await service.json<{ id: string }>('/v1/preview/models', {
      json: { project: 'tests', name: 'imported', base_model: BASE, from_adapter: from },
    })
    const { body: same } = await service.json(`/v1/preview/models/${other.id}/checkpoints/1/files`)
    expect((same as unknown as typeof files).files).toEqual(files.files)
    expect((await chat('tests/m')).body.choices).toEqual((await chat('tests/imported')).body.choices)
  })
})

describe('an adapter at the bound of what is taken', () => {
  it.each([
    ['large A', 65_504, 0.25],
    ['large B', 0.5, 32_000],
    ['both', 16, 1000],
  ])('still answers: %s', async (_, a, b) => {
    const fill = (values: ReadonlyMap<string, Float32Array>, value: number) =>
      new Map([...values].map(([path, data]) => [path, data.map((_value, i) => (i % 3 === 0 ? -value : value))]))
    expect((await commit(encode({ ...good, a: fill(good.a, a), b: fill(good.b, b) }))).errors).toBeUndefined()
    expect((await chat('tests/m')).status).toBe(200)
  })
})

describe('a manifest', () => {
  const contents = (count: number): string =>
    Array.from({ length: count }, (_, i) => `"file-${i}":{"digest":"aaaaaaaaaaaaaaaaaaaaaa=="}`).join(',')
  const manifest = (inner: string): Buffer =>
    Buffer.from(`{"version":1,"storagePolicy":"wandb-storage-policy-v1","contents":{${inner}}}`)

  it.each<[string, () => Buffer, RegExp]>([
    [
      'that nests without end',
      () => Buffer.from(`{"version":1,"storagePolicyConfig":{"a":${'['.repeat(1e6)}${']'.repeat(1e6)}}}`),
      /nesting is deeper/,
    ],
    ['of very many files', () => manifest(contents(100_000)), /more than/],
    ['that names a file twice', () => manifest('"a":{"digest":"x"},"a":{"digest":"y"}'), /twice/],
    ['that is no JSON', () => Buffer.from('{'), /ends inside/],
    ['of another version', () => Buffer.from('{"version":2,"storagePolicy":"x","contents":{}}'), /version/],
  ])('%s is refused', async (_, bytes, message) => {
    const id = await begin('rows', 'dataset')
    expect(await putManifest(id, bytes())).toBe(200)
    const answer = await mutate('commitArtifact', { artifactID: id }, 'artifact { state }')
    expect([answer.status, answer.errors?.[0]?.extensions.code]).toEqual([200, 'artifact_incomplete'])
    expect(answer.errors?.[0]?.message).toMatch(message)
  })

  it('larger than any other body is not taken', async () => {
    const id = await begin('rows', 'dataset')
    expect(await putManifest(id, Buffer.alloc(17 * 1024 ** 2, 0x20))).toBe(413)
  })

  it('is read beside the event loop', async () => {
    const id = await begin('rows', 'dataset')
    await putManifest(id, manifest(contents(15_000)))
    const answer = await mutate('commitArtifact', { artifactID: id }, 'artifact { state }')
    expect(answer.errors?.[0]?.message).toMatch(/"file-0" was not uploaded/)
  })
})
