/**
 * Structured outputs at full size: schemas are compiled and sampled, every finished answer is checked by ajv. Needs the build.
 *
 *     node test/support/schemas/check-schemas.js                      1,000 random ones; two minutes of processor time
 *     node test/support/schemas/check-schemas.js --suite              1,000 drawn from the public JSON Schema test suite (`.ci/run` fetches it)
 *     node test/support/schemas/check-schemas.js --everyday           200 of pydantic and 200 of zod, not strict: what is left out is named, and nothing else violated
 *     node test/support/schemas/check-schemas.js --count 100 --from 300   numbers 300 to 399 of the same 1,000
 *
 * One instance of the compiler takes them all: a thread for each, as the engine has it, would spend most of its time on starting.
 * Hostile ones, through a server: `hostile-grammars.js`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Ajv } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { createRng } from '../../../dist/src/base/util/rng.js'
import { compile, toGrammarWork } from '../../../dist/src/inference/grammar/grammar-thread.js'
import { createTokenTable, tokenBytes } from '../../../dist/src/inference/grammar/token-table.js'
import { loadXgrammar } from '../../../dist/src/inference/grammar/xgrammar.js'
import { sparkDirectory } from '../../../dist/src/model/built-in/spark.js'
import { loadTextModel } from '../../../dist/src/model/text/text-model.js'
import { toByteLevelText } from '../../../dist/src/model/text/vocabulary/byte-level.js'
import { drawnEverydaySchemas, named, without } from './drawn-schemas.js'
import { closingTokens, randomSchema, walk } from './random-schemas.js'

const { values: options } = parseArgs({
  options: {
    count: { type: 'string', default: '1000' },
    from: { type: 'string', default: '0' },
    suite: { type: 'boolean', default: false },
    everyday: { type: 'boolean', default: false },
  },
})
const [from, count] = [Number(options.from), Number(options.count)]

const SEED = 2026
const ANSWERS = 3
// a property is one that the value has, not one of its prototype
const AJV = { strict: false, ownProperties: true }
/** The drafts that ajv knows. */
const DRAFTS = { draft6: Ajv, draft7: Ajv, 'draft2019-09': Ajv2019, 'draft2020-12': Ajv2020 }

/** Every schema of the public suite, in an order drawn at random. */
function suiteSchemas() {
  const suite = join(import.meta.dirname, '../../../.cache/json-schema-suite/tests')
  const all = Object.keys(DRAFTS).flatMap((draft) =>
    readdirSync(join(suite, draft), { recursive: true })
      .filter((name) => name.endsWith('.json'))
      .sort()
      .flatMap((name) => JSON.parse(readFileSync(join(suite, draft, name), 'utf8')))
      .map(({ schema }) => ({ draft, schema })),
  )
  const rng = createRng(BigInt(SEED))
  return all
    .map((entry) => ({ entry, place: rng.uniform() }))
    .sort((a, b) => a.place - b.place)
    .map(({ entry }) => entry)
}

/** Whether a value is valid, and why not; null where ajv itself cannot read the schema (another document is not there). */
function validatorOf({ draft, schema }) {
  const ajv = new DRAFTS[draft](AJV)
  addFormats.default(ajv)
  try {
    const isValid = ajv.compile(schema)
    return (value) => (isValid(value) ? null : ajv.errorsText(isValid.errors))
  } catch {
    return null
  }
}

const print = console.log
/** Of the one instance; each grammar of a server has its own. */
const MEMORY_BYTES = 2 ** 31

/** Compiles in this thread. */
async function createCompiler(table) {
  const { xgrammar } = loadXgrammar(MEMORY_BYTES)
  const texts = Array.from(tokenBytes(table), toByteLevelText)
  const stopIds = [...table.stopTokenIds]
  const info = await xgrammar.TokenizerInfo.createTokenizerInfo(texts, 'byte_level', false, texts.length, stopIds)
  const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false)
  const stops = new Uint32Array(Math.ceil(texts.length / 32))
  for (const id of stopIds) stops[id >>> 5] |= 1 << (id & 31)
  return async (spec) => {
    const work = toGrammarWork(spec)
    const compiled = await compile(xgrammar, compiler, work)
    return {
      /** Keywords that it does not hold answers to. */
      unheld: named(work.schemas.flatMap(({ unheld }) => unheld)),
      /** A mask as the engine's, made when it is asked for. */
      async open() {
        const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled)
        let words = null
        return {
          ready: async () => {
            words = matcher.isTerminated() ? stops : Uint32Array.from(await matcher.getNextTokenBitmask())
          },
          next: () => words,
          accept: (id) => {
            if (!matcher.isTerminated() && !matcher.acceptToken(id)) throw new Error(`token ${id} is not taken`)
          },
          close: () => matcher.dispose(),
        }
      },
      dispose: () => compiled.dispose(),
    }
  }
}

async function run() {
  const model = await loadTextModel(sparkDirectory())
  const table = await createTokenTable(model.tokenizer, model.tokenizer.vocabularySize, model.eosTokenIds)
  const compileSpec = await createCompiler(table)
  const sampler = { ...model, closingIds: closingTokens(model) }
  const counts = { compiled: 0, refused: 0, named: 0, answers: 0, unfinished: 0, invalid: 0, other: 0, unknown: 0 }
  const draft = 'draft2020-12'
  const everyday = () => drawnEverydaySchemas(createRng).map((schema) => ({ draft, schema }))
  const drawn = options.suite ? suiteSchemas() : options.everyday ? everyday() : null
  const last = Math.min(from + count, drawn?.length ?? Infinity)
  for (let i = from; i < last; i++) {
    const rng = createRng(BigInt(SEED + i))
    const random = () => rng.uniform()
    const entry = drawn === null ? { draft, schema: randomSchema(random) } : drawn[i]
    const schema = JSON.stringify(entry.schema)
    const spec = { kind: 'json_schema', schema, isWhitespaceFree: i % 2 === 0, isLax: options.everyday }
    let grammar
    try {
      grammar = await compileSpec(spec)
    } catch (error) {
      counts.refused++
      if (error.code === 'unsupported_schema') continue
      counts.other++
      print(`  ${i} ${error.code}: ${String(error.message ?? error).slice(0, 160)}\n    ${spec.schema.slice(0, 300)}`)
      continue
    }
    counts.compiled++
    if (grammar.unheld.length > 0) counts.named++
    const problemOf = validatorOf({ ...entry, schema: without(entry.schema, grammar.unheld) })
    if (problemOf === null) counts.unknown++
    for (let answer = 0; problemOf !== null && answer < ANSWERS; answer++) {
      const mask = await grammar.open()
      const text = await walk(mask, sampler, random)
      mask.close()
      if (text === null) {
        counts.unfinished++
        continue
      }
      counts.answers++
      const problem = isJson(text) ? problemOf(JSON.parse(text)) : 'is not JSON'
      if (problem === null) continue
      counts.invalid++
      print(`  ${i} not valid: ${text.slice(0, 300)}\n    ${spec.schema.slice(0, 600)}\n    ${problem}`)
    }
    grammar.dispose()
  }
  const whole = options.suite ? `schemas of the public suite's ${drawn?.length}` : 'schemas of everyday types'
  const where = drawn === null ? 'random schemas' : whole
  print(
    `${counts.compiled} of ${last - from} ${where} compiled, ${counts.named} without what is named, ${counts.refused} refused, ${counts.other} not by name`,
  )
  print(
    `${counts.answers} finished answers, ${counts.invalid} not valid, ${counts.unfinished} not finished, ${counts.unknown} compiled that ajv cannot read`,
  )
  if (counts.invalid + counts.other > 0) process.exitCode = 1
}

function isJson(text) {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

await run()
