/**
 * Opens a base model of any supported format by looking at what is there.
 */
import { stat } from 'node:fs/promises'
import { extname } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { openByteFile } from './byte-file.js'
import { openGgufSource } from './gguf-source.js'
import { isPickleName, openHfDirectory, pickleError } from './hf-directory.js'
import type { WeightSource } from './weight-source.js'

const GGUF_MAGIC = 'GGUF'

/**
 * Opens a Hugging Face directory or a GGUF file.
 *
 * @param path a directory with `config.json` and safetensors, or a `.gguf` file
 * @throws {WeightsError} `file_not_found`, `pickle_refused`, `unknown_format`, and what the format's reader throws
 * @example
 * const source = await openWeights('models/smollm2.gguf')
 * const norm = await source.readFloat32('model.norm.weight')
 * await source.close()
 */
export async function openWeights(path: string): Promise<WeightSource> {
  const stats = await stat(path).catch((error: unknown) => {
    throw new WeightsError('file_not_found', `model "${path}" does not exist`, { cause: error })
  })
  if (stats.isDirectory()) return openHfDirectory(path)
  if (!stats.isFile()) throw new WeightsError('unknown_format', `model "${path}" is neither a directory nor a file`)
  const magic = await readMagic(path)
  if (magic === GGUF_MAGIC) return openGgufSource(path)
  if (isPickleName(path) || magic.startsWith('PK') || magic.startsWith('\x80')) throw pickleError(path)
  if (extname(path) === '.safetensors') {
    throw new WeightsError('unknown_format', `model "${path}" is a weight file without its configuration`, {
      hint: 'give the directory that holds config.json and the weights',
    })
  }
  throw new WeightsError('unknown_format', `model "${path}" is neither a GGUF file nor a Hugging Face directory`)
}

async function readMagic(path: string): Promise<string> {
  const file = await openByteFile(path)
  try {
    return Buffer.from(await file.read(0, Math.min(4, file.sizeBytes))).toString('latin1')
  } finally {
    await file.close()
  }
}
