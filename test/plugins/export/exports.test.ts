/**
 * A checkpoint in other formats over HTTP: listed with sizes, made while it is sent, refused with a reason.
 *
 * What other programs make of the files is tested in `test/plugins/export/programs.test.ts`.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CheckpointFiles } from '#contract/wire/checkpoints.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { decodeAdapter } from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

let service: TestService
let root: string

beforeAll(async () => {
  service = await createTestService({ baseModels: ['trainyard/spark'] })
  const { body } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'p', name: 'my model', base_model: 'trainyard/spark' },
  })
  root = `/v1/preview/models/${body.id}/checkpoints`
})
afterAll(() => service.dispose())

async function download(path: string): Promise<Uint8Array> {
  const response = await service.fetch(path)
  expect(response.status).toBe(200)
  const bytes = new Uint8Array(await response.arrayBuffer())
  expect(response.headers.get('content-length')).toBe(String(bytes.length))
  return bytes
}

test('step 0 as GGUF: the listing names sizes, the file has that size and is the base model', async () => {
  const { body } = await service.json<CheckpointFiles>(`${root}/0/files?format=gguf`)
  expect(body).toMatchObject({ step: 0, format: 'gguf' })
  expect(body.files.map(({ name, sha256 }) => [name, sha256])).toEqual([
    ['my_model-step0-f16.gguf', null],
    ['Modelfile', null],
  ])
  const bytes = await download(`${root}/0/files/my_model-step0-f16.gguf?format=gguf`)
  expect(bytes.length).toBe(body.files[0]?.size_bytes)
  const path = join(await temporaryDirectory(), 'model.gguf')
  await writeFile(path, bytes)
  const [made, base] = [await openWeights(path), await openWeights(sparkDirectory())]
  expect([...made.tensorNames].sort()).toEqual([...base.tensorNames].sort())
  // spark is stored in float16, so nothing is lost
  for (const name of base.tensorNames) expect(await made.readFloat32(name), name).toEqual(await base.readFloat32(name))
  await Promise.all([made.close(), base.close()])
})

test('the Modelfile has the prompt format, its end, and no penalty that the model was not trained with', async () => {
  const text = new TextDecoder().decode(await download(`${root}/0/files/Modelfile?format=gguf`))
  expect(text.split('\n')[0]).toBe('FROM ./my_model-step0-f16.gguf')
  expect(text).toContain('TEMPLATE """{{- if .System }}<|im_start|>system')
  expect(text.split('\n').slice(-4)).toEqual([
    'PARAMETER stop "<|im_end|>"',
    'PARAMETER num_ctx 2048',
    'PARAMETER repeat_penalty 1',
    '',
  ])
})

test('the latest step of a model that was never trained is its base model, as an adapter that changes nothing', async () => {
  const { body } = await service.json<CheckpointFiles>(`${root}/latest/files`)
  expect(body).toMatchObject({ step: 0, format: 'peft' })
  const files = new Map<string, Uint8Array>()
  for (const { name } of body.files) files.set(name, await download(`${root}/0/files/${name}`))
  const { a, b, config } = decodeAdapter(files)
  expect(config).toMatchObject({ rank: 8, alpha: 16 })
  expect([...a.values()].some((values) => values.some((x) => x !== 0))).toBe(true)
  expect([...b.values()].every((values) => values.every((x) => x === 0))).toBe(true)
})

test.each([
  ['0/files?format=onnx', 422, 'format'],
  ['0/files?format=gguf&precision=q4_k_m', 422, 'precision'],
  ['0/files?format=peft&precision=f16', 422, 'precision must be left out'],
  ['0/files?format=merged&precision=q8_0', 400, 'q8_0 exists in GGUF only'],
  ['0/files/none.gguf?format=gguf', 404, 'no file'],
  ['7/files?format=gguf', 404, 'no checkpoint at step'],
])('%s is refused with %i', async (path, status, words) => {
  const response = await service.fetch(`${root}/${path}`)
  expect(response.status).toBe(status)
  expect(await response.text()).toContain(words)
})

test('clients that go away free their places: later exports are answered', async () => {
  for (let i = 0; i < 4; i++) {
    const gone = new AbortController()
    const response = await service.fetch(`${root}/0/files/model.safetensors?format=merged`, { signal: gone.signal })
    expect(response.status).toBe(200)
    gone.abort()
    await sleep(0)
  }
  const { body } = await service.json<CheckpointFiles>(`${root}/0/files?format=merged`)
  expect(body.files.map(({ name }) => name)).toContain('model.safetensors')
})
