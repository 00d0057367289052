/**
 * Makes the tokenizer: `node test/spark/train-tokenizer.js [--vocabulary 4096] [--megabytes 16] [--seed spark-1]`.
 *
 * Prints bytes per token on held-out rows and documents.
 */
import { parseArgs } from 'node:util'
import { createRng } from '#base/util/rng.js'
import { loadTextModel } from '#model/text/text-model.js'
import { ABILITIES } from './abilities/index.js'
import { heldOutRows } from './data/conversations.js'
import { MODEL_DIRECTORY } from './paths.js'
import { TEXT_SOURCES } from './text/documents.js'
import { chatSegments } from './text-model/chat-template.js'
import { writeTextModel } from './text-model/text-model-files.js'

const { values } = parseArgs({
  options: {
    vocabulary: { type: 'string', default: '4096' },
    megabytes: { type: 'string', default: '16' },
    seed: { type: 'string', default: 'spark-1' },
    out: { type: 'string', default: MODEL_DIRECTORY },
  },
})

const startedAt = performance.now()
const vocabularySize = writeTextModel(values.out, {
  vocabularySize: Number(values.vocabulary),
  sizeBytes: Number(values.megabytes) * 1e6,
  seed: values.seed,
})
console.log(`${vocabularySize} tokens in ${((performance.now() - startedAt) / 1000).toFixed(1)} s → ${values.out}`)

const { tokenizer } = await loadTextModel(values.out)
const rate = (/** @type {string[]} */ texts) => {
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  const tokens = texts.reduce((sum, text) => sum + tokenizer.encode(text, { parseSpecial: true }).length, 0)
  return { bytes, tokens, 'bytes/token': Number((bytes / tokens).toFixed(2)) }
}
const rng = createRng('held-out documents')
console.table({
  ...Object.fromEntries(
    ABILITIES.map((ability) => [
      ability.name,
      rate(
        heldOutRows(ability, 200).map((row) =>
          chatSegments(row)
            .map(({ text }) => text)
            .join(''),
        ),
      ),
    ]),
  ),
  ...Object.fromEntries(
    TEXT_SOURCES.map((source) => [
      source.name,
      rate(Array.from({ length: 100 }, () => source.generate(rng, 'heldOut'))),
    ]),
  ),
})
