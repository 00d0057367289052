/** Checks of finished answers against schemas that are anybody's: a hostile one costs its own check, and says so. */
import { expect, test } from 'vitest'
import { createSchemaChecker } from '#service/processes/schema-checker.js'

const checker = createSchemaChecker({ environment: process.env })
const check = (value: unknown, schema: object) => checker.check('key', JSON.stringify(value), JSON.stringify(schema))

test('says each violation, of tuples in the words of draft 7 too', async () => {
  expect(await check(['a', 'a'], { uniqueItems: true, items: { maxLength: 0 } })).toEqual([
    '/0 must NOT have more than 0 characters (maxLength)',
    '/1 must NOT have more than 0 characters (maxLength)',
    expect.stringContaining('(uniqueItems)'),
  ])
  expect(await check(['a', 1], { items: [{ type: 'string' }, { type: 'string' }] })).toEqual([
    '/1 must be string (type)',
  ])
  expect(await check({ a: 1 }, { type: 'object' })).toEqual([])
})

test.each<[string, object, string]>([
  ['a reference elsewhere', { $ref: 'https://example.com/a' }, 'was not checked'],
  ['properties of characters without end', { type: 'string', pattern: '\\p{L}'.repeat(60_000) }, 'more than 4000'],
  ['names of properties as patterns', { patternProperties: { ['a'.repeat(5000)]: true } }, 'more than 4000'],
  ['a schema that leads to itself', { $ref: '#' }, 'was not checked'],
])('%s', async (_, schema, words) => {
  expect(await check('aaa', schema)).toEqual([expect.stringContaining(words)])
})

test('a pattern that takes for ever ends at the limit', { timeout: 120_000 }, async () => {
  const impatient = createSchemaChecker({ environment: process.env, limitMs: 3000 })
  const schema = JSON.stringify({ type: 'string', pattern: '^(a+)+$' })
  const found = await impatient.check('key', JSON.stringify(`${'a'.repeat(60)}!`), schema)
  expect(found).toEqual([expect.stringContaining('took longer than 3 s')])
})

test('an expression that backtracks for ever is matched elsewhere, and ends there', { timeout: 120_000 }, async () => {
  const impatient = createSchemaChecker({ environment: process.env, limitMs: 3000 })
  expect(await impatient.match('key', `${'a'.repeat(60)}!`, '(a+)+')).toEqual([
    expect.stringContaining('took longer than 3 s'),
  ])
  expect(await impatient.match('key', 'aa', 'a+')).toEqual([])
  expect(await impatient.match('key', 'ab', 'a+')).toEqual(['the answer does not match the regular expression'])
})

test('a pattern as other languages spell it is checked', async () => {
  expect(await check('AB-1', { type: 'string', pattern: '^[A-Z]+\\-\\d+$' })).toEqual([])
  expect(await check('AB1', { type: 'string', pattern: '^[A-Z]+\\-\\d+$' })).toEqual([
    expect.stringContaining('(pattern)'),
  ])
})
