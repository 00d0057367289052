/**
 * The two files of an adapter as they were given, read for an import or a merge. Messages name them as the client does, never
 * where they lie here.
 */
import { WeightsError } from '#base/errors/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { MAX_CONFIG_BYTES } from '#model/weights/adapter.js'
import { decodeUtf8, openByteFile } from '#model/weights/byte-file.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'
import { type GivenAdapter, readGivenAdapter } from './given-adapter.js'
import type { ImportRequest } from './requests.js'

const MAX_WEIGHTS_BYTES = 2 ** 31

/** @throws {WeightsError} as `readGivenAdapter`, and what opening the files throws */
export async function readGivenFiles(
  request: Pick<ImportRequest, 'configPath' | 'weightsPath'>,
): Promise<GivenAdapter> {
  const config = await readGiven(request.configPath, ADAPTER_CONFIG_FILE, MAX_CONFIG_BYTES)
  const weights = await readGiven(request.weightsPath, ADAPTER_WEIGHTS_FILE, MAX_WEIGHTS_BYTES)
  const json = parseStrictJsonObject(decodeUtf8(config, ADAPTER_CONFIG_FILE), ADAPTER_CONFIG_FILE)
  return readGivenAdapter(json, weights, ADAPTER_WEIGHTS_FILE)
}

/** The bytes of a file of at most `maxBytes`. @throws {WeightsError} `invalid_adapter` for a larger one */
export async function readGiven(path: string, name: string, maxBytes: number): Promise<Uint8Array> {
  const file = await openByteFile(path, name)
  try {
    if (file.sizeBytes <= maxBytes) return await file.read(0, file.sizeBytes)
    throw new WeightsError('invalid_adapter', `${name} has ${file.sizeBytes} bytes, expected at most ${maxBytes}`)
  } finally {
    await file.close()
  }
}
