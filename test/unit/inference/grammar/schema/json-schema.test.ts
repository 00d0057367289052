/** JSON Schemas: what is refused by name, and what is written out for the compiler. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { JsonValue } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import { toGrammarSchema } from '#inference/grammar/schema/json-schema.js'
import { ASSERTIONS, UNSUPPORTED } from '#inference/grammar/schema/schema-checks.js'
import { patchGrammar } from '#inference/grammar/schema/schema-patches.js'
import { readFormat } from '#inference/grammar/schema/string-format.js'
import { expectCode } from '../../../../support/expect-code.js'

/** Rules that every JSON grammar of the compiler has. */
const BASICS = 'basic_integer ::= x\nbasic_number ::= y\n'

test('many properties of characters are refused before each of them is written out', () => {
  const peakKib = process.resourceUsage().maxRSS
  const pattern = '\\p{L}'.repeat(60_000)
  expect(() => toGrammarSchema({ type: 'string', pattern })).toThrow('memory for the classes of a pattern')
  expect(process.resourceUsage().maxRSS - peakKib).toBeLessThan(200 * 1024)
  expect(() => toGrammarSchema({ type: 'string', pattern: '\\\\p' })).not.toThrow()
})

describe('what is refused names keyword and place', () => {
  test.each<[JsonValue, string, string]>([
    [{ type: 'integer', multipleOf: 3 }, '#/multipleOf', 'keyword'],
    [{ type: 'array', items: { type: 'array', uniqueItems: true } }, '#/items/uniqueItems', 'keyword'],
    [{ properties: { a: { not: { type: 'string' } } }, type: 'object' }, '#/properties/a/not', 'keyword'],
    [{ anyOf: [{ type: 'string' }, { type: 'object', patternProperties: {} }] }, '#/anyOf/1/patternProperties', ''],
    [{ $defs: { x: { if: true } }, $ref: '#/$defs/x' }, '#/$defs/x/if', ''],
    [{ $ref: '#/$defs/x', minLength: 3 }, '#/minLength', 'beside "$ref"'],
    [{ type: 'object', anyOf: [{ required: ['a'] }] }, '#/type', 'beside "anyOf"'],
    [{ type: 'string', enum: ['a', 1] }, '#/enum', 'not of type string'],
    [{ allOf: [{ type: 'string' }, { minLength: 2 }] }, '#/allOf', 'more than one'],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, '#/oneOf', 'told apart'],
    [{ type: 'string', format: 'uri', maxLength: 2000 }, '#', 'length together'],
    [{ type: 'string', format: 'iri' }, '#/format', '"iri"'],
    [{ type: 'number', minimum: 3, maximum: 2 }, '#', 'leaves no number'],
    [{ type: 'number', minimum: true }, '#/minimum', 'must be a number'],
    [{ type: 'integer', minimum: 0.2, maximum: 0.5 }, '#', 'leaves no number'],
    [{ type: 'object', properties: {}, required: ['a'], additionalProperties: false }, '#/required', '"a"'],
    [{ type: 'object', properties: { a: false }, required: ['a'] }, '#/properties/a', 'false'],
    [{ enum: [] }, '#/enum', 'empty'],
    [{ anyOf: [false, false] }, '#/anyOf', 'false'],
    [{ allOf: [true, false] }, '#/allOf/1', 'false'],
    [false, '#', 'false'],
    [{ $ref: '#/$defs/none' }, '#/$ref', 'nothing'],
    [{ $ref: '#name', $defs: { a: { $anchor: 'name' } } }, '#/$ref', 'same schema'],
    [{ $ref: '#/$defs/a', $defs: { a: false } }, '#/$ref', 'false'],
    [{ $defs: { a: { $id: 'other', items: { $ref: '#/$defs/b' } } } }, '#/$defs/a/$id', 'of its own'],
    [{ type: 'integer', format: 'date' }, '#/format', '"date"'],
    [{ type: 'integer', format: 'int32', minimum: 2 ** 31 }, '#', 'leaves no number'],
    [{ type: 'thing' }, '#/type', '"thing"'],
    [{ $ref: 'https://example.com/schema' }, '#/$ref', 'same schema'],
    [{ type: 'array', items: [{ type: 'string' }], prefixItems: [true] }, '#/items', 'prefixItems'],
    [{ type: 'array', items: { type: 'string' }, additionalItems: false }, '#/additionalItems', 'keyword'],
    [{ type: 'object', propertyNames: { pattern: 'a' } }, '#/propertyNames', 'keyword'],
    [{ type: 'object', propertyNames: { type: 'number' } }, '#/propertyNames', 'keyword'],
    [7, '#', 'object or a boolean'],
  ])('%j', async (schema, path, words) => {
    await expectCode(() => toGrammarSchema(schema), 'unsupported_schema', `${path} `, words)
  })

  test('a schema deeper than the limit', async () => {
    let schema: JsonValue = { type: 'string' }
    for (let depth = 0; depth < 200; depth++) schema = { type: 'array', items: schema }
    await expectCode(() => toGrammarSchema(schema), 'unsupported_schema', 'nested')
  })
})

describe('where a schema is not strict, what is refused is left out and named', () => {
  test.each<[JsonValue, JsonValue, readonly string[]]>([
    [{ type: 'integer', multipleOf: 3 }, { type: 'integer' }, ['#/multipleOf']],
    [
      { type: 'array', items: { type: 'array', items: { type: 'null' }, uniqueItems: true, contains: {} } },
      { type: 'array', items: { type: 'array', items: { type: 'null' } } },
      ['#/items/uniqueItems', '#/items/contains'],
    ],
    [
      { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      { anyOf: [{ type: 'integer' }, { type: 'number' }] },
      ['#/oneOf'],
    ],
    [{ type: 'string', format: 'iri' }, { type: 'string' }, ['#/format']],
    [{ type: 'string', pattern: '(?=a)b' }, { type: 'string' }, ['#/pattern']],
    [{ $ref: 'https://example.com/schema' }, {}, ['#/$ref']],
    [
      { type: 'object', properties: { a: true }, anyOf: [{ required: ['a'] }] },
      { type: 'object', properties: { a: {} } },
      ['#/anyOf'],
    ],
    [{ type: 'string', anyOf: [{ const: 'a' }] }, { anyOf: [{ const: 'a' }] }, ['#/type']],
    [{ allOf: [{ type: 'null' }, { not: true }] }, { allOf: [{ type: 'null' }] }, ['#/allOf']],
  ])('%j', (schema, left, named) => {
    expect(toGrammarSchema(schema, { isLax: true })).toMatchObject({ schema: left, unheld: named })
  })

  test('what nothing can satisfy stays refused', async () => {
    for (const schema of [{ enum: [] }, { type: 'number', minimum: 3, maximum: 2 }, { $ref: '#/$defs/none' }]) {
      await expectCode(() => toGrammarSchema(schema, { isLax: true }), 'unsupported_schema')
    }
  })
})

test('objects that are put together have all properties, whatever else is said keeps them apart', () => {
  const base = { type: 'object', properties: { a: { type: 'null' } }, required: ['a'] }
  const child = { properties: { b: { type: 'boolean' } } }
  const { schema } = toGrammarSchema({ allOf: [{ $ref: '#/$defs/base' }, child], $defs: { base } })
  expect(schema).toMatchObject({
    type: 'object',
    properties: { a: { type: 'null' }, b: { type: 'boolean' } },
    required: ['a'],
  })
  for (const other of [{ ...base, not: {} }, { ...base, additionalProperties: false }, { properties: { b: true } }]) {
    expect(() => toGrammarSchema({ allOf: [other, child] })).toThrow('#/allOf')
  }
})

describe('a pattern and bounds of length at once', () => {
  const rulesOf = (schema: JsonValue) => toGrammarSchema(schema).patches.constants[0]?.helpers

  test('a pattern that says its length itself stays as it is', () => {
    expect(rulesOf({ type: 'string', pattern: '^[A-Z]{2}\\d{4}$', minLength: 6, maxLength: 6 })).toEqual([])
  })

  test('else each state is written once for each length', () => {
    expect(rulesOf({ type: 'string', pattern: '^a+$', minLength: 2, maxLength: 3 })).toEqual([
      String.raw`own_name_0_0 ::= ([\x61]) own_name_1_1`,
      String.raw`own_name_1_1 ::= ([\x61]) own_name_2_2`,
      String.raw`own_name_2_2 ::= "\"" | ([\x61]) own_name_2_3`,
      String.raw`own_name_2_3 ::= "\""`,
    ])
  })

  test('without a most, what is long enough is long enough', () => {
    const rules = rulesOf({ type: 'string', pattern: '^(ab)*$', minLength: 1 })
    expect(rules).toContain(String.raw`own_name_2_1 ::= "\"" | ([\x61]) own_name_1_1`)
  })

  test('no text is possible, or too many rules were needed: refused', () => {
    expect(() => toGrammarSchema({ type: 'string', pattern: '^(aa)+$', minLength: 3, maxLength: 3 })).toThrow('length')
    expect(() => toGrammarSchema({ type: 'string', pattern: '^[a-c]+$', maxLength: 5000 })).toThrow('length')
  })
})

describe('what is taken', () => {
  test.each<JsonValue>([
    true,
    { type: ['string', 'null'], title: 'a name', 'x-own': 1 },
    { oneOf: [{ type: 'integer' }, { type: 'string' }] },
    {
      oneOf: [
        { type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'] },
        { type: 'object', properties: { kind: { enum: ['b', 'c'] } }, required: ['kind'] },
      ],
    },
    { type: 'string', enum: ['a'] },
    { $defs: { node: { type: 'array', items: { $ref: '#/$defs/node' } } }, $ref: '#/$defs/node' },
  ])('%j is given on as it is', (schema) => {
    expect(toGrammarSchema(schema)).toEqual({ schema, patches: { constants: [], others: [] }, unheld: [] })
  })

  test('a tuple of draft 7, and names of which nothing is said, as newer drafts spell them', () => {
    const tuple = {
      type: 'array',
      items: [{ type: 'number' }, { type: 'string' }],
      additionalItems: false,
      minItems: 2,
    }
    expect(toGrammarSchema(tuple).schema).toEqual({
      ...{ type: 'array', prefixItems: [{ type: 'number' }, { type: 'string' }], items: false, minItems: 2 },
    })
    const open = { type: 'array', items: [{ type: 'number' }] }
    expect(toGrammarSchema(open).schema).toEqual({ type: 'array', prefixItems: [{ type: 'number' }] })
    const record = { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'number' } }
    expect(toGrammarSchema(record).schema).toEqual({ type: 'object', additionalProperties: { type: 'number' } })
  })

  test('an object and an array of which nothing is said may hold anything', () => {
    const schema = { type: 'object', properties: { a: { type: 'object' }, b: { type: 'array' } } }
    expect(toGrammarSchema(schema).schema).toEqual({
      type: 'object',
      properties: { a: { type: 'object', additionalProperties: true }, b: { type: 'array', items: true } },
    })
  })

  test('keywords without a type mean values of theirs', () => {
    expect(toGrammarSchema({ minLength: 1 }).patches.constants[0]?.rule).toContain('{1,}')
    expect(toGrammarSchema({ properties: { a: true } }).schema).toMatchObject({ type: 'object' })
  })
})

describe('what the compiler gets wrong is marked and written by us', () => {
  test('bounds of numbers', () => {
    const { schema, patches } = toGrammarSchema({ type: ['number', 'null'], minimum: 0, maximum: 1 })
    expect(schema).toEqual({ anyOf: [{ const: 'markedt0' }, { type: ['null'] }] })
    expect(patches.constants).toEqual([{ mark: 'markedt0', rule: expect.stringContaining('"0"') }])
    expect(patchGrammar(`${BASICS}root ::= "\\"markedt0\\"" | basic_null`, patches)).toMatch(
      /^root ::= own_rule_0 \| basic_null$/m,
    )
  })

  test.each([
    ['uint8', '255', '256'],
    ['int16', '-32768', '-32769'],
    ['uint32', '4294967295', '-1'],
    ['uint', '999999999999999', '-1'],
  ])('the bounds of %s', (format, inside, outside) => {
    const bounded = toGrammarSchema({ type: 'integer', format, minimum: Number(inside) })
    expect(bounded.patches.constants).toHaveLength(1)
    const [minimum, maximum] = outside.startsWith('-') ? [-(10 ** 14), Number(outside)] : [Number(outside), 10 ** 14]
    expect(() => toGrammarSchema({ type: 'integer', format, minimum, maximum })).toThrow('leaves no number')
  })

  test('a mark that the schema spells itself is another one', () => {
    const { schema } = toGrammarSchema({ type: 'number', minimum: 0, description: 'markedt0' })
    expect(schema).toEqual({ const: 'markedxt0' })
  })

  test('names that need escapes, and names of additional properties', () => {
    const { schema, patches } = toGrammarSchema({
      type: 'object',
      properties: { 'a"b': true, c: true },
      required: ['a"b'],
      additionalProperties: { type: 'string' },
    })
    expect(schema).toEqual({
      type: 'object',
      properties: { markedt0: true, c: true },
      required: ['markedt0'],
      additionalProperties: { $ref: '#/$defs/markedoa' },
      $defs: { markedoa: { type: 'string' } },
    })
    expect(patches).toEqual({
      constants: [{ mark: 'markedt0', rule: String.raw`"\"a\\\"b\""` }],
      others: [{ mark: 'markedoa', names: ['a"b', 'c'] }],
    })
    const rules =
      'defs_markedoa ::= basic_string\nroot_addl ::= defs_markedoa\nroot ::= ("," basic_string ":" root_addl)*'
    const grammar = BASICS + rules
    expect(patchGrammar(grammar, { ...patches, constants: [] })).toContain('("," other_name_0 ":" root_addl)*')
    expect(() => patchGrammar(grammar.replace('basic_string ":"', 'other ":"'), patches)).toThrow('no place')
  })
})

describe('what is written out', () => {
  test('a required property that nothing describes', () => {
    const { schema } = toGrammarSchema({ type: 'object', required: ['a'] })
    expect(schema).toMatchObject({ properties: { a: true }, required: ['a'] })
    expect(toGrammarSchema({ properties: { b: true }, required: ['a'] }).schema).toMatchObject({
      properties: { a: true, b: true },
    })
  })

  test('what cannot be is left out where something else can', () => {
    expect(toGrammarSchema({ anyOf: [false, { type: 'null' }] }).schema).toEqual({ anyOf: [{ type: 'null' }] })
    expect(toGrammarSchema({ properties: { a: false, b: true } }).schema).toMatchObject({ properties: { b: true } })
    expect(toGrammarSchema({ allOf: [true, { type: 'null' }, {}] }).schema).toEqual({ allOf: [{ type: 'null' }] })
  })

  test('references that the compiler would not find', () => {
    const { schema } = toGrammarSchema({
      type: 'object',
      properties: { 'a/b': { type: 'null' }, c: { $ref: '#/properties/a~1b' }, d: { $ref: '#/properties/a%7E1b' } },
    })
    const marked = { $ref: '#/$defs/markedra' }
    expect(schema).toMatchObject({ properties: { c: marked, d: marked }, $defs: { markedra: { type: 'null' } } })
  })

  test('constants with a slash', () => {
    const { schema, patches } = toGrammarSchema({ enum: ['km/h', 'm'] })
    expect(schema).toEqual({ enum: ['markedt0', 'm'] })
    expect(patches.constants).toEqual([{ mark: 'markedt0', rule: String.raw`"\"km/h\""` }])
  })

  test('a chain of types with nested objects is converted once', () => {
    let schema: JsonValue = { type: 'null' }
    for (let depth = 0; depth < 40; depth++) {
      schema = { type: ['string', 'object'], minLength: 1, properties: { a: schema } }
    }
    expect(toGrammarSchema(schema).patches.constants).toHaveLength(40)
  })
})

test('the documentation lists the same keywords and formats', () => {
  const page = readFileSync(join(packageRoot(), 'src/docs/reference/api.md'), 'utf8')
  const wordsOf = (row: string): string[] => {
    const line = page.split('\n').find((text) => text.startsWith(`| ${row} `)) ?? ''
    return [...line.matchAll(/`([^`]+)`/g)].map(([, word]) => word ?? '')
  }
  expect(new Set(wordsOf('left out and named, or refused'))).toEqual(new Set(UNSUPPORTED))
  expect(wordsOf('held to')).toEqual(expect.arrayContaining([...ASSERTIONS].filter((name) => name !== 'format')))
  const formats = wordsOf('formats')
  expect(formats).toHaveLength(31)
  for (const format of formats) {
    const type = /^(u?int|float|double)/.test(format) ? 'number' : 'string'
    expect(readFormat(format, [type]), format).toBeDefined()
  }
})
