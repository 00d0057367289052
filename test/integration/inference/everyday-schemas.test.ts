/** Schemas of everyday types: taken where they are not strict, held to but for what is named, and never violated in silence. */
import { Ajv, type ErrorObject } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { createTokenTable, type TokenTable } from '#inference/grammar/token-table.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { EVERYDAY_SCHEMAS } from '../../support/schemas/everyday-schemas.js'
import { closingTokens, walk } from '../../support/schemas/random-schemas.js'

const ANSWERS = 3
const OPTIONS = { strict: false, allErrors: true, validateSchema: false } as const
let model: TextModel
let table: TokenTable
beforeAll(async () => {
  model = await loadTextModel(sparkDirectory())
  table = await createTokenTable(model.tokenizer, model.tokenizer.vocabularySize, model.eosTokenIds)
})

/** Where an answer violates a schema. */
function violated(schema: object, answer: unknown): string[] {
  const ajv = 'definitions' in schema ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
  addFormats.default(ajv as Ajv)
  const validate = ajv.compile(schema)
  validate(answer)
  return (validate.errors ?? []).map(({ schemaPath }: ErrorObject) => schemaPath)
}

/** A schema without these keywords, wherever they stand. */
function without(schema: JsonValue, keywords: readonly string[]): JsonValue {
  if (Array.isArray(schema)) return schema.map((item) => without(item, keywords))
  if (!isJsonObject(schema)) return schema
  const left = Object.entries(schema).filter(([name]) => !keywords.includes(name))
  return Object.fromEntries(left.map(([name, value]) => [name, without(value, keywords)]))
}

describe('an answer violates nothing but what is named as not held to', () => {
  test.each(EVERYDAY_SCHEMAS)('%s', { timeout: 120_000 }, async (_, schema) => {
    const spec: GrammarSpec = {
      kind: 'json_schema',
      schema: JSON.stringify(schema),
      isWhitespaceFree: true,
      isLax: true,
    }
    const grammar = await compileGrammar(spec, table, { clock: systemClock })
    const rng = createRng(5n)
    const named = grammar.unheld.map((place) => place.slice(place.lastIndexOf('/') + 1))
    try {
      for (let i = 0; i < ANSWERS; i++) {
        const text = await walk(grammar.open(), { ...model, closingIds: closingTokens(model) }, () => rng.uniform())
        if (text === null) continue
        expect(violated(without(schema, named) as object, JSON.parse(text)), `${text}, named: ${named}`).toEqual([])
      }
    } finally {
      await grammar.dispose()
    }
  })
})

test('a strict one is refused by the name of what is not held to', async () => {
  const spec: GrammarSpec = {
    kind: 'json_schema',
    schema: JSON.stringify({ type: 'array', items: { type: 'string' }, uniqueItems: true }),
    isWhitespaceFree: false,
  }
  await expect(compileGrammar(spec, table, { clock: systemClock })).rejects.toMatchObject({
    code: 'unsupported_schema',
    message: expect.stringContaining('#/uniqueItems'),
  })
})
