/**
 * Files of models as clones and editors leave them: pointers of Git LFS, byte order marks, JSON with a slip. What is wrong is said in
 * words that lead on.
 */
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { inspectModel } from '#model/inspection/inspect.js'
import { openWeights } from '#model/weights/base-weights.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${'ab'.repeat(32)}\nsize 12977720\n`
const JSON_FILES = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'generation_config.json']

const model = async (): Promise<string> => ensureTinyRandomModel(join(await temporaryDirectory(), 'tiny'))
const inspect = (path: string) => inspectModel(path, { hasDigest: false })
const isPointer = { code: 'lfs_pointer', message: /Git LFS pointer/, hint: /git lfs pull/ }

async function expectError(action: Promise<unknown>, wanted: { code: string; message: RegExp; hint?: RegExp }) {
  await expect(action).rejects.toMatchObject({
    code: wanted.code,
    message: expect.stringMatching(wanted.message),
    ...(wanted.hint === undefined ? {} : { hint: expect.stringMatching(wanted.hint) }),
  })
}

test.each(['model.safetensors', ...JSON_FILES])('a pointer in place of %s', async (name) => {
  const path = await model()
  await writeFile(join(path, name), POINTER)
  await expectError(inspect(path), isPointer)
})

test('a pointer in place of a GGUF file', async () => {
  const path = join(await temporaryDirectory(), 'model.gguf')
  await writeFile(path, POINTER)
  await expectError(openWeights(path), isPointer)
})

test('byte order marks are read past, in every file', async () => {
  const [path, plain] = [await model(), await model()]
  for (const name of JSON_FILES) await writeFile(join(path, name), `\uFEFF${await readFile(join(path, name), 'utf8')}`)
  expect({ ...(await inspect(path)), sizeBytes: 0 }).toEqual({ ...(await inspect(plain)), sizeBytes: 0 })
})

test.each(JSON_FILES)('%s with a comma too many, or NaN, says where', async (name) => {
  const path = await model()
  const whole = join(path, `${name}.whole`)
  await copyFile(join(path, name), whole)
  const text = (await readFile(whole, 'utf8')).trimEnd()
  await writeFile(join(path, name), `${text.slice(0, -1)},\n}`)
  await expect(inspect(path)).rejects.toThrow(
    new RegExp(`${name}".*JSON: line \\d+, column \\d+: a comma stands before }`, 's'),
  )
  await writeFile(join(path, name), `{"first": NaN, ${text.trimStart().slice(1)}`)
  await expect(inspect(path)).rejects.toThrow(
    new RegExp(`${name}".*JSON: line 1, column 11: NaN is no number of JSON`, 's'),
  )
})
