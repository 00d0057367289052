/**
 * A merged export of a model whose configuration says tied while its file has another head: the head is in it, and the configuration
 * says so to releases of transformers that would drop it.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { writeRandomModel } from '#model/built-in/tiny-random.js'
import { openWeights } from '#model/weights/base-weights.js'
import { noisyAdapter, storeAdapter, writeExport } from '../../support/model/export-fixture.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

test('a head of its own is exported, merged and as GGUF', async () => {
  const root = await temporaryDirectory()
  const sourcePath = await writeRandomModel(join(root, 'model'), { isEmbeddingTied: false })
  const path = join(sourcePath, 'config.json')
  const config = JSON.parse(await readFile(path, 'utf8')) as JsonObject
  await writeFile(path, JSON.stringify({ ...config, tie_word_embeddings: true }))
  const adapter = await storeAdapter(await noisyAdapter(sourcePath), join(root, 'adapter'))
  const head = async (place: string): Promise<Float32Array> => {
    const opened = await openWeights(place)
    expect(decoderConfigOf(opened).isEmbeddingTied).toBe(false)
    const values = await opened.readFloat32('lm_head.weight')
    await opened.close()
    return values
  }
  const own = await head(sourcePath)

  const merged = join(root, 'merged')
  await writeExport(merged, { format: 'merged', storage: 'f32', sourcePath, adapter })
  expect(JSON.parse(await readFile(join(merged, 'config.json'), 'utf8'))).toMatchObject({ tie_word_embeddings: false })
  expect(await head(merged)).toEqual(own)

  const gguf = join(root, 'gguf')
  const files = await writeExport(gguf, { format: 'gguf', storage: 'f32', sourcePath, adapter })
  expect(await head(join(gguf, files.find((name) => name.endsWith('.gguf')) ?? ''))).toEqual(own)
})
