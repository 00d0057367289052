/** Schemas of everyday types: taken where they are not strict, held to but for what is named, and never violated in silence. */
import { Ajv, type ErrorObject } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { toGrammarWork } from '#inference/grammar/grammar-thread.js'
import { createTokenTable, type TokenTable } from '#inference/grammar/token-table.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { drawnEverydaySchemas, named, without } from '../../support/schemas/drawn-schemas.js'
import { EVERYDAY_SCHEMAS } from '../../support/schemas/everyday-schemas.js'
import { closingTokens, walk } from '../../support/schemas/random-schemas.js'

const ANSWERS = 3
/** 400; `test/support/schemas/check-schemas.js --everyday` samples answers to them all. */
const DRAWN = drawnEverydaySchemas(createRng)
const specOf = (schema: unknown): GrammarSpec => ({
  kind: 'json_schema',
  schema: JSON.stringify(schema),
  isWhitespaceFree: true,
  isLax: true,
})
const OPTIONS = { strict: false, allErrors: true, validateSchema: false, logger: false } as const
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

describe('an answer violates nothing but what is named as not held to', () => {
  const some = DRAWN.flatMap((schema, i) => (i % 40 === 7 ? [[`drawn ${i}`, schema] as const] : []))
  test.each([...EVERYDAY_SCHEMAS, ...some])('%s', async (_, schema) => {
    const grammar = await compileGrammar(specOf(schema), table, { clock: systemClock })
    const rng = createRng(5n)
    const left = named(grammar.unheld)
    try {
      for (let i = 0; i < ANSWERS; i++) {
        const text = await walk(grammar.open(), { ...model, closingIds: closingTokens(model) }, () => rng.uniform())
        if (text === null) continue
        expect(violated(without(schema, left), JSON.parse(text)), `${text}, named: ${left}`).toEqual([])
      }
    } finally {
      await grammar.dispose()
    }
  })
})

test('of 400 drawn at random from types of pydantic and zod none is refused', () => {
  expect(DRAWN).toHaveLength(400)
  const worked = DRAWN.map((schema) => toGrammarWork(specOf(schema)))
  // what answers cannot be held to is named; a schema that says nothing of the kind names nothing
  const unheld = worked.filter(({ schemas }) => schemas.some((each) => each.unheld.length > 0))
  expect(unheld.length).toBeGreaterThan(150)
  expect(unheld.length).toBeLessThan(300)
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
    hint: expect.stringContaining('without strict: true'),
  })
})
