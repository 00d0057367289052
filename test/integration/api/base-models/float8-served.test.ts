/** A folder with weights of eight bits is served like the same folder widened beforehand: the same tokens with the same log-probabilities. */
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { writeRandomModel } from '#model/built-in/tiny-random.js'
import { float8ToFloat32 } from '#model/weights/float8.js'
import { readSafetensors, writeSafetensors } from '#model/weights/safetensors.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { createTestService } from '../../../support/service/create-test-service.js'
import { temporaryDirectory } from '../../../support/temporary-directory.js'

const BLOCK = [32, 32] as const
/** Projections of eight bits with scales in blocks in the first folder, what they mean in the second. */
async function quantize(small: string, wide: string): Promise<void> {
  const { tensors } = await readSafetensors(join(small, 'model.safetensors'))
  const [stored, widened, bytesOf] = [new Map<string, HostTensor>(), new Map(tensors), new Set<string>()]
  for (const [name, tensor] of tensors) {
    if (!name.endsWith('_proj.weight')) {
      stored.set(name, tensor)
      continue
    }
    const [rows = 0, columns = 0] = tensor.shape
    const data = Uint8Array.from({ length: rows * columns }, (_, i) => ((i * 37) % 0x60) | (i % 3 === 0 ? 0x80 : 0))
    const scaleShape = [Math.ceil(rows / BLOCK[0]), Math.ceil(columns / BLOCK[1])]
    const scales = Float32Array.from({ length: (scaleShape[0] ?? 0) * (scaleShape[1] ?? 0) }, (_, i) => 0.01 + i / 1000)
    stored.set(name, { dtype: 'uint8', shape: tensor.shape, data })
    bytesOf.add(name)
    stored.set(`${name}_scale_inv`, float32Tensor(scales, scaleShape))
    const values = float8ToFloat32(data).map((value, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns]
      const at = Math.floor(row / BLOCK[0]) * (scaleShape[1] ?? 0) + Math.floor(column / BLOCK[1])
      return value * (scales[at] ?? 0)
    })
    widened.set(name, float32Tensor(values, tensor.shape))
  }
  await writeSafetensors(join(wide, 'model.safetensors'), widened)
  const path = join(small, 'model.safetensors')
  await writeSafetensors(path, stored)
  // written as U8, which the header then calls by its name
  const file = await readFile(path)
  const length = Number(file.readBigUInt64LE(0))
  const header = JSON.parse(file.subarray(8, 8 + length).toString()) as Record<string, { dtype: string }>
  for (const name of bytesOf) Object.assign(header[name] ?? {}, { dtype: 'F8_E4M3' })
  const json = Buffer.from(JSON.stringify(header))
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(BigInt(json.length))
  await writeFile(path, Buffer.concat([prefix, json, file.subarray(8 + length)]))
  const config = JSON.parse(await readFile(join(small, 'config.json'), 'utf8')) as object
  const quantization = { quant_method: 'fp8', activation_scheme: 'dynamic', weight_block_size: BLOCK }
  await writeFile(join(small, 'config.json'), JSON.stringify({ ...config, quantization_config: quantization }))
}

test('answers are those of the widened folder', async () => {
  const root = await temporaryDirectory()
  const [small, wide] = [join(root, 'small'), join(root, 'wide')]
  await writeRandomModel(small, {})
  await cp(small, wide, { recursive: true })
  await quantize(small, wide)
  const baseModels = [
    { name: 'small', sourcePath: small },
    { name: 'wide', sourcePath: wide },
  ]
  const service = await createTestService({ scripted: false, threads: 1, baseModels })
  onTestFinished(() => service.dispose())
  const answers = await Promise.all(
    ['small', 'wide'].map(async (model) => {
      const messages = [{ role: 'user', content: 'Hi.' }]
      const json = { model, messages, max_tokens: 8, temperature: 0, logprobs: true, ignore_eos: true }
      const { status, body } = await service.json<{ choices: { logprobs: { content: object[] } }[] }>(
        '/v1/chat/completions',
        { json },
      )
      expect(status, JSON.stringify(body)).toBe(200)
      return body.choices[0]?.logprobs.content
    }),
  )
  expect(answers[0]?.length).toBeGreaterThan(0)
  expect(answers[0]).toEqual(answers[1])
})
