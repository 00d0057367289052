/**
 * Merges an adapter from elsewhere into its base model, as a Hugging Face directory of float32. It is for adapters that are more
 * than a change of low rank (DoRA, trained embeddings and heads, other whole tensors): merged, they are served and exported
 * exactly.
 *
 * The result is a base model of its own; training from it begins with a new adapter.
 */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { checkDecoderTensors, decoderConfigOf, decoderTensorShapes } from '#model/architectures/registry.js'
import { loadTextModel } from '#model/text/text-model.js'
import { openWeights } from '#model/weights/base-weights.js'
import { assertFinite, type WeightSource } from '#model/weights/weight-source.js'
import { isNorm } from './gguf/gguf-description.js'
import type { GivenAdapter, LowRankChange } from './given-adapter.js'
import { readGivenFiles } from './given-files.js'
import { applyChange, mergedTensors } from './merged-tensors.js'
import { mergedFiles } from './plan-export.js'
import type { MergeRequest } from './requests.js'
import { compareSaved } from './saved-tensors.js'

const EMBEDDING = 'model.embed_tokens'
const HEAD = 'lm_head'

/**
 * Writes the merged model.
 *
 * @returns sentences: what of the adapter was not read
 * @throws {WeightsError} what is wrong with the adapter or the base model
 */
export async function mergeAdapter(request: MergeRequest): Promise<readonly string[]> {
  const given = await readGivenFiles(request)
  const base = await openWeights(request.sourcePath)
  try {
    checkDecoderTensors(base, decoderConfigOf(base))
    const { changed, notes } = await compareSaved(given, base)
    const merged = withAdapter(base, given, changed)
    const config = decoderConfigOf(merged)
    const shapes = decoderTensorShapes(config)
    checkChanges(given, shapes)
    const text = await loadTextModel(request.sourcePath)
    const tensors = mergedTensors(merged, new Set(shapes.keys()), null)
    const files = await mergedFiles({ source: merged, config, text, storage: 'f32' }, tensors)
    for (const { name, bytes } of files) {
      const handle = await open(join(request.targetPath, name), 'wx')
      try {
        for await (const part of bytes()) await handle.writeFile(part)
        await handle.sync()
      } finally {
        await handle.close()
      }
    }
    return [...given.notes, ...notes]
  } finally {
    await base.close()
  }
}

/** Every change must find its weight, in its size. */
function checkChanges({ changes }: GivenAdapter, shapes: ReadonlyMap<string, readonly number[]>): void {
  for (const [path, { rank, a, b }] of changes) {
    const shape = shapes.get(`${path}.weight`)
    if (shape === undefined) throw invalid(`adapts "${path}", which the base model does not have`)
    const given = [b.length / rank, a.length / rank]
    if (given[0] === shape[0] && given[1] === shape[1]) continue
    throw invalid(`adapts "${path}" as [${given.join(', ')}], expected [${shape.join(', ')}]`)
  }
}

/**
 * The base model as the adapter makes it. PEFT changes embedding and head apart from each other, also where they are one: then
 * the head becomes a tensor of its own. mlx-lm's change of an embedding is one of the head that is tied to it.
 */
function withAdapter(
  base: WeightSource,
  given: GivenAdapter,
  changed: ReadonlyMap<string, Float32Array>,
): WeightSource {
  const names = new Set(base.tensorNames)
  const isChanged = (path: string): boolean => given.changes.has(path) || changed.has(`${path}.weight`)
  const isUntied =
    !names.has(`${HEAD}.weight`) && (isChanged(HEAD) || (isChanged(EMBEDDING) && given.settings.layout === 'peft'))
  const storedName = (name: string): string => (isUntied && name === `${HEAD}.weight` ? `${EMBEDDING}.weight` : name)
  return {
    ...base,
    hasOwnHead: base.hasOwnHead || isUntied,
    tensorNames: isUntied ? [...base.tensorNames, `${HEAD}.weight`] : base.tensorNames,
    tensorShape: (name) => base.tensorShape(storedName(name)),
    tensorStorage: (name) => base.tensorStorage(storedName(name)),
    async readFloat32(name) {
      const whole = changed.get(name)
      // a GGUF file keeps norms of some families in another form than an adapter does
      if (whole !== undefined && base.kind === 'gguf' && isNorm(name)) {
        throw new WeightsError(
          'unsupported_adapter',
          `adapter trained "${name}", which is merged into Hugging Face folders only`,
        )
      }
      const values = whole === undefined ? await base.readFloat32(storedName(name)) : whole.slice()
      const change: LowRankChange | undefined = given.changes.get(name.replace(/\.weight$/, ''))
      if (change !== undefined) applyChange(values, change)
      return assertFinite(values, name)
    },
  }
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
