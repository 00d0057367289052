/** JSON Schemas: what is refused by name, and what is written out for the compiler. */
import { describe, expect, test } from 'vitest'
import type { JsonValue } from '#base/util/json.js'
import { toGrammarSchema } from '#inference/grammar/json-schema.js'
import { expectCode } from '../../../support/expect-code.js'

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
    [{ type: 'string', pattern: 'a', maxLength: 3 }, '#', 'length together'],
    [{ type: 'string', format: 'iri' }, '#/format', '"iri"'],
    [{ type: 'number', minimum: 0.5 }, '#/minimum', 'integer'],
    [{ type: 'integer', minimum: 0.5 }, '#/minimum', 'integer'],
    [{ type: 'object', properties: {}, required: ['a'] }, '#/required', '"a"'],
    [{ type: 'thing' }, '#/type', '"thing"'],
    [{ $ref: 'https://example.com/schema' }, '#/$ref', 'same schema'],
    [{ type: 'array', items: [{ type: 'string' }] }, '#/items', 'prefixItems'],
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
    expect(toGrammarSchema(schema)).toEqual(schema)
  })

  test('an object and an array of which nothing is said may hold anything', () => {
    const schema = { type: 'object', properties: { a: { type: 'object' }, b: { type: 'array' } } }
    expect(toGrammarSchema(schema)).toEqual({
      type: 'object',
      properties: { a: { type: 'object', additionalProperties: true }, b: { type: 'array', items: true } },
    })
  })
})
