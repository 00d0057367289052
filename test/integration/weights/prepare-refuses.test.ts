/**
 * Preparing a base model refuses weights that do not match its configuration, before anything is written.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { prepareBaseModel } from '../../../src/model/architectures/prepare.js'
import { writeRandomModel } from '../../../src/model/built-in/tiny-random.js'
import { readSafetensors, writeSafetensors } from '../../../src/model/weights/safetensors.js'
import { float32Tensor } from '../../../src/numerics/tensor/host-tensor.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

test('prepareBaseModel: a tensor that the decoder would ignore is refused and nothing is prepared', async () => {
  const directory = await temporaryDirectory()
  const model = join(directory, 'model')
  await writeRandomModel(model, {})
  const file = join(model, 'model.safetensors')
  const { tensors } = await readSafetensors(file)
  const extra = new Map(tensors).set('model.layers.0.self_attn.q_proj.bias', float32Tensor(new Float32Array(64), [64]))
  await writeSafetensors(file, extra)
  const prepared = join(directory, 'prepared')
  await expect(prepareBaseModel(model, prepared, ['f32'])).rejects.toMatchObject({ code: 'unexpected_tensor' })
  const left = await readdir(prepared, { recursive: true }).catch(() => [])
  expect(left.filter((name) => name.includes('weights') || name.includes('manifest'))).toEqual([])
})
