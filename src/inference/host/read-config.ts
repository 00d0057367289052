/**
 * What a base model's files say of its decoder, before anything computes it.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { openWeights } from '#model/weights/base-weights.js'

/** What a base model's files describe. */
export async function readConfig(sourcePath: string): Promise<DecoderConfig> {
  const source = await openWeights(sourcePath)
  try {
    return decoderConfigOf(source)
  } finally {
    await source.close()
  }
}
