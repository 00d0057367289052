/**
 * The built-in model's files: export makes F16 weights with digests, and any damage is found before they are used.
 */
import { createHash } from 'node:crypto'
import { cp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { InstallationError } from '../../../src/base/errors/errors.js'
import { sparkDirectory, verifySpark } from '../../../src/model/built-in/spark.js'
import { writeRandomModel } from '../../../src/model/built-in/tiny-random.js'
import { readSafetensors, toFloat32, writeSafetensors } from '../../../src/model/weights/safetensors.js'
import { float16ToFloat32, float32ToFloat16 } from '../../../src/numerics/tensor/half.js'
import { float32Tensor } from '../../../src/numerics/tensor/host-tensor.js'
import { exportModel } from '../../spark/text-model/export-model.js'
import { expectCode } from '../../support/expect-code.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const WEIGHTS = 'model.safetensors'

async function exported(): Promise<{ readonly from: string; readonly to: string }> {
  const directory = await temporaryDirectory()
  const from = await writeRandomModel(join(directory, 'trained'), { layerCount: 1 })
  const to = join(directory, 'spark')
  await exportModel(from, to)
  return { from, to }
}

const digestOf = async (path: string) =>
  createHash('sha256')
    .update(await readFile(path))
    .digest('hex')

describe('export', () => {
  test('writes every weight as the nearest F16, copies the rest, lists every digest', async () => {
    const { from, to } = await exported()
    const before = await readSafetensors(join(from, WEIGHTS))
    const after = await readSafetensors(join(to, WEIGHTS))
    expect([...after.tensors.keys()].sort()).toEqual([...before.tensors.keys()].sort())
    for (const [name, tensor] of after.tensors) {
      expect(tensor).toMatchObject({ dtype: 'float16', shape: before.tensors.get(name)!.shape })
      const wanted = float16ToFloat32(float32ToFloat16(toFloat32(before.tensors.get(name)!, name)))
      expect(toFloat32(tensor, name)).toEqual(wanted)
    }
    const { torch_dtype: dtype, ...config } = JSON.parse(await readFile(join(to, 'config.json'), 'utf8')) as object & {
      torch_dtype: string
    }
    expect(dtype).toBe('float16')
    expect(JSON.parse(await readFile(join(from, 'config.json'), 'utf8'))).toMatchObject(config)
    const { files } = JSON.parse(await readFile(join(to, 'digests.json'), 'utf8')) as { files: Record<string, string> }
    expect([...Object.keys(files), 'digests.json'].sort()).toEqual((await readdir(to)).sort())
    for (const [name, digest] of Object.entries(files)) expect(await digestOf(join(to, name)), name).toBe(digest)
  })

  test('again: the same bytes; the model card stays, an outdated template does not', async () => {
    const { from, to } = await exported()
    const first = await readFile(join(to, 'digests.json'), 'utf8')
    await writeFile(join(to, 'README.md'), '# card\n')
    await writeFile(join(to, 'chat_template.jinja'), 'old')
    await exportModel(from, to)
    expect(await readFile(join(to, 'digests.json'), 'utf8')).toBe(first)
    expect(await readdir(to)).toContain('README.md')
    expect(await readdir(to)).not.toContain('chat_template.jinja')
  })

  test('a weight beyond F16 is refused by name, and nothing is written', async () => {
    const { from, to } = await exported()
    const { tensors } = await readSafetensors(join(from, WEIGHTS))
    const norm = toFloat32(tensors.get('model.norm.weight')!, 'norm')
    norm[3] = 70_000
    await writeSafetensors(join(from, WEIGHTS), new Map([...tensors, ['model.norm.weight', float32Tensor(norm, [64])]]))
    const untouched = await digestOf(join(to, WEIGHTS))
    await expect(exportModel(from, to)).rejects.toThrow(/"model\.norm\.weight" has 70000/)
    expect(await digestOf(join(to, WEIGHTS))).toBe(untouched)
  })
})

describe('verification', () => {
  test('whole files pass', async () => {
    await verifySpark((await exported()).to)
  })

  test.each<[string, (path: string) => Promise<unknown>]>([
    ['truncated by a byte', async (path) => truncate(path, (await readFile(path)).length - 1)],
    ['truncated to nothing', (path) => truncate(path, 0)],
    [
      'altered in one bit of its last byte',
      async (path) => {
        const bytes = await readFile(path)
        bytes[bytes.length - 1]! ^= 1
        await writeFile(path, bytes)
      },
    ],
    [
      'replaced by a longer file',
      async (path) => writeFile(path, Buffer.concat([await readFile(path), Buffer.of(10)])),
    ],
  ])('weights or tokenizer %s: refused with name, both digests and advice', async (_, damage) => {
    const { to } = await exported()
    for (const name of [WEIGHTS, 'tokenizer.json']) {
      const copy = `${to} ${name}`
      await cp(to, copy, { recursive: true })
      const path = join(copy, name)
      const expected = await digestOf(path)
      await damage(path)
      await expectCode(() => verifySpark(copy), 'built_in_model_damaged', path, expected, await digestOf(path))
      const error = await verifySpark(copy).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(InstallationError)
      expect((error as InstallationError).hint).toMatch(/npm ci.*git checkout/)
    }
  })

  test('a file that is gone, or is a folder, is named with the digest it should have', async () => {
    const { to } = await exported()
    const path = join(to, 'config.json')
    const expected = await digestOf(path)
    await rm(path)
    await expectCode(() => verifySpark(to), 'built_in_model_damaged', path, 'cannot be read', expected)
  })

  test.each<[string, string | null, string]>([
    ['gone', null, 'expected the digests'],
    ['no JSON', '{', 'expected the digests'],
    ['without files', '{}', 'has no sha256 of config.json, model.safetensors'],
    ['without one entry', 'model.safetensors', 'has no sha256 of model.safetensors'],
    ['with no digest', '{"files":{"config.json":"abc"}}', '{"config.json":"abc"}'],
    ['with a path', `{"files":{"../config.json":"${'0'.repeat(64)}"}}`, '../config.json'],
  ])('a list of digests that is %s is refused', async (_, content, words) => {
    const { to } = await exported()
    const path = join(to, 'digests.json')
    if (content === null) await rm(path)
    else if (content === WEIGHTS) {
      const json = JSON.parse(await readFile(path, 'utf8')) as { files: Record<string, string> }
      delete json.files[WEIGHTS]
      await writeFile(path, JSON.stringify(json))
    } else await writeFile(path, content)
    await expectCode(() => verifySpark(to), 'built_in_model_damaged', path, words)
  })

  test('the files are looked for below the package’s root', () => {
    expect(sparkDirectory()).toBe(join(import.meta.dirname, '../../../src/assets/spark'))
  })
})
