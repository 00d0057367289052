/**
 * A few of the random schemas and hostile grammars that `test/support/schemas/check-schemas.js` and `hostile-grammars.js` take by the
 * thousand.
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { beforeAll, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import { compileGrammar, DEFAULT_GRAMMAR_LIMITS } from '#inference/grammar/grammar.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { createTokenTable, type TokenTable } from '#inference/grammar/token-table.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { closingTokens, hostileSpecs, randomSchema, walk } from '../../support/schemas/random-schemas.js'

const clock = systemClock
let model: TextModel
let table: TokenTable
beforeAll(async () => {
  model = await loadTextModel(sparkDirectory())
  table = await createTokenTable(model.tokenizer, model.tokenizer.vocabularySize, model.eosTokenIds)
})

test('every finished answer of a random schema is valid', { timeout: 300_000 }, async () => {
  const rng = createRng(17n)
  const random = (): number => rng.uniform()
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  const sampler = { ...model, closingIds: closingTokens(model) }
  let finished = 0
  for (let i = 0; i < 10; i++) {
    const schema = randomSchema(random)
    const spec: GrammarSpec = { kind: 'json_schema', schema: JSON.stringify(schema), isWhitespaceFree: i % 2 === 0 }
    const grammar = await compileGrammar(spec, table, { clock }).catch((error: { code: string }) => {
      expect(error.code, spec.schema).toBe('unsupported_schema')
      return null
    })
    if (grammar === null) continue
    const mask = grammar.open()
    const text = await walk(mask, sampler, random)
    await grammar.dispose()
    if (text === null) continue
    finished++
    expect(ajv.validate(schema, JSON.parse(text)), `${text} ${spec.schema}`).toBe(true)
  }
  expect(finished).toBeGreaterThan(5)
})

test('hostile grammars are refused or taken within the limits', { timeout: 300_000 }, async () => {
  const rng = createRng(3n)
  const limits = { ...DEFAULT_GRAMMAR_LIMITS, compileMs: 150, maxBytes: 64 * 2 ** 20 }
  for (const spec of hostileSpecs(() => rng.uniform(), 31) as GrammarSpec[]) {
    try {
      await (await compileGrammar(spec, table, { clock, limits })).dispose()
    } catch (error) {
      expect(error, JSON.stringify(spec).slice(0, 200)).toMatchObject({ category: 'invalid_request' })
    }
  }
})
