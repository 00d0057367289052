/**
 * What a base model on disk is, without preparing it: family, size, context, how its weights are stored, and whether this
 * program can serve it. Everything is checked that loading would check; of a model that is taken in also the weights' values.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { answerFormatOf, type ToolFormat } from '#formats/answers/answer-format.js'
import { parameterCount } from '#model/architectures/decoder-config.js'
import { fromHfConfig } from '#model/architectures/hf-config.js'
import { checkDecoderTensors, decoderConfigOf } from '#model/architectures/registry.js'
import { checkTemplate } from '#model/text/check-template.js'
import { loadTextModel } from '#model/text/text-model.js'
import { openWeights } from '#model/weights/base-weights.js'
import { readTextFile } from '#model/weights/byte-file.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { findLostTokens, type LostToken } from './lost-tokens.js'
import { modelWarnings } from './model-warnings.js'

// How a model's makers sample it, by the `generation_config.json` of its folder. What ends an answer is read elsewhere.

/** Fields of a chat request: `temperature`, `top_p`, `top_k`. */
type OwnSampling = Readonly<Record<string, number>>

const MAX_BYTES = 1_000_000
const BOUNDS: Readonly<Record<string, (value: number) => boolean>> = {
  temperature: (value) => value > 0 && value <= 2,
  top_p: (value) => value > 0 && value <= 1,
  top_k: (value) => Number.isInteger(value) && value >= 1,
}

/** @returns null without the file, and where it says nothing that is usable, or that nothing is sampled (`do_sample` false) */
export async function readOwnSampling(folder: string): Promise<OwnSampling | null> {
  let config: Readonly<Record<string, unknown>> | null
  try {
    config = JSON.parse(await readTextFile(join(folder, 'generation_config.json'), MAX_BYTES))
  } catch {
    return null
  }
  if (typeof config !== 'object' || config === null || config['do_sample'] === false) return null
  const found = Object.entries(BOUNDS).flatMap(([name, isUsable]) => {
    const value = config[name]
    return typeof value === 'number' && isUsable(value) ? [[name, value] as const] : []
  })
  return found.length === 0 ? null : Object.fromEntries(found)
}

/** Facts of a base model that can be served. */
export interface ModelFacts {
  /** The family in the model's own words: `llama`, `qwen2`. */
  readonly architecture: string
  readonly parameters: number
  /** Tokens. */
  readonly contextLength: number
  /** Of the weight files. */
  readonly sizeBytes: number
  /** How most of the weights are stored, in the format's words: `BF16`, `Q8_0`. */
  readonly precision: string
  /** Whether it has a chat template. */
  readonly isChat: boolean
  /** The form in which its calls of tools are read; null where none is. */
  readonly toolFormat: ToolFormat | null
  /** Sentences: what its files lack, or say otherwise than it is served. */
  readonly warnings: readonly string[]
  /** How its makers sample it; null where its files do not say it, absent where nobody has looked. */
  readonly sampling?: OwnSampling | null
  /** Signs that it can neither read nor write; null where its head is too large for a look, absent where nobody has looked. */
  readonly lostTokens?: readonly LostToken[] | null
  /** SHA-256 of configuration and weights; null when it was not asked for. */
  readonly digest: string | null
}

/**
 * Reads and checks a model.
 *
 * @param path Hugging Face directory or GGUF file
 * @param options.hasDigest also read every byte, for the digest and for values that are no numbers
 * @throws {WeightsError | TokenizerError} what makes it unusable
 */
export async function inspectModel(path: string, options: { readonly hasDigest: boolean }): Promise<ModelFacts> {
  const source = await openWeights(path)
  try {
    const config = decoderConfigOf(source)
    checkDecoderTensors(source, config)
    const text = await loadTextModel(path)
    const { chatTemplate } = text
    if (chatTemplate !== null) checkTemplate(chatTemplate)
    if (options.hasDigest) await source.checkValues()
    return {
      architecture: config.family,
      parameters: parameterCount(config),
      contextLength: config.contextLength,
      sizeBytes: await weightBytes(path),
      precision: mainStorage(source),
      isChat: chatTemplate !== null,
      toolFormat: answerFormatOf(chatTemplate?.source ?? '').toolFormat,
      warnings: modelWarnings(source, text, config.vocabularySize),
      sampling: await readOwnSampling(path),
      lostTokens: await findLostTokens(source, config, text),
      digest: options.hasDigest ? await source.digest() : null,
    }
  } finally {
    await source.close()
  }
}

const MAX_CONFIG_BYTES = 10_000_000

/**
 * Whether the decoder that a `config.json` describes can be served, before its weights are there.
 *
 * @throws {WeightsError} `unknown_architecture`, `invalid_config`, `unsupported_model`
 */
export async function checkConfigFile(path: string): Promise<void> {
  fromHfConfig(parseStrictJsonObject(await readTextFile(path, MAX_CONFIG_BYTES), `"${path}"`))
}

/** The storage type that holds most elements. */
function mainStorage(source: WeightSource): string {
  const elements = new Map<string, number>()
  for (const name of source.tensorNames) {
    const storage = source.tensorStorage(name)
    const count = source.tensorShape(name).reduce((product, size) => product * size, 1)
    elements.set(storage, (elements.get(storage) ?? 0) + count)
  }
  return [...elements].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ['', -1])[0]
}

async function weightBytes(path: string): Promise<number> {
  const facts = await stat(path)
  if (!facts.isDirectory()) return facts.size
  let total = 0
  for (const name of await readdir(path)) {
    if (name.endsWith('.safetensors')) total += (await stat(join(path, name))).size
  }
  return total
}
