/**
 * Writes the training rows: `node test/spark/write-mixture.js --tokens 50000000 [--row-lengths 128,512,1024]
 * [--seed spark]`.
 *
 * Needs the tokenizer (`train-tokenizer.js`). Prints tokens by source and the digest.
 */
import { parseArgs } from 'node:util'
import { loadTextModel } from '#model/text/text-model.js'
import { STYLES } from './abilities/define.js'
import { ABILITIES, FIRST_ABILITIES } from './abilities/index.js'
import { writeMixture } from './data/mixture.js'
import { MIXTURE_DIRECTORY, MODEL_DIRECTORY } from './paths.js'

const { values } = parseArgs({
  options: {
    tokens: { type: 'string', default: '1000000' },
    'row-lengths': { type: 'string', default: '128,512,1024' },
    'held-out': { type: 'string', default: '200' },
    seed: { type: 'string', default: 'spark' },
    /** Factors on the shares of sources: `repeat=3,spell=1.5`. */
    emphasis: { type: 'string', default: '' },
    /** How rows are asked, a name in `STYLES`. */
    style: { type: 'string', default: 'complete' },
    /** Without the abilities that came behind the first 3,600 steps. */
    first: { type: 'boolean', default: false },
    model: { type: 'string', default: MODEL_DIRECTORY },
    out: { type: 'string', default: MIXTURE_DIRECTORY },
  },
})

const style = STYLES[/** @type {keyof typeof STYLES} */ (values.style)]
if (style === undefined) throw new Error(`--style is one of ${Object.keys(STYLES).join(', ')}, not "${values.style}"`)
const { tokenizer } = await loadTextModel(values.model)
const startedAt = performance.now()
const manifest = writeMixture(values.out, {
  tokenizer,
  tokens: Number(values.tokens),
  rowLengths: values['row-lengths'].split(',').map(Number),
  seed: values.seed,
  heldOutCount: Number(values['held-out']),
  emphasis: Object.fromEntries(
    values.emphasis
      .split(',')
      .filter((part) => part !== '')
      .map((part) => [part.split('=')[0], Number(part.split('=')[1])]),
  ),
  style,
  abilities: values.first ? FIRST_ABILITIES : ABILITIES,
  onProgress: (tokens) => {
    if (process.stderr.isTTY) process.stderr.write(`\r${(tokens / 1e6).toFixed(1)} M tokens`)
  },
})
const seconds = (performance.now() - startedAt) / 1000
console.table(
  Object.fromEntries(
    Object.entries(manifest.sources).map(([name, { sequences, tokens, trained }]) => [
      name,
      { sequences, tokens, trained, 'share %': Number(((100 * tokens) / manifest.tokens).toFixed(1)) },
    ]),
  ),
)
for (const { file, rows, rowLength, tokens, sha256 } of manifest.train) {
  const fill = (100 * tokens) / (rows * rowLength)
  console.log(`${file}: ${rows} rows, ${tokens} tokens (${fill.toFixed(1)}% full), sha256 ${sha256}`)
}
console.log(`${manifest.tokens} tokens in ${seconds.toFixed(0)} s`)
