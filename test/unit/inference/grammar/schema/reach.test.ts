/** Bounds that no answer can come to, and the names of those that take long. */
import { expect, test } from 'vitest'
import { type GrammarSpec, withReach } from '#inference/grammar/grammar-spec.js'
import { toGrammarWork } from '#inference/grammar/grammar-thread.js'
import { largestParts } from '#inference/grammar/schema/largest-bounds.js'

const schemaOf = (schema: object): GrammarSpec => ({
  kind: 'json_schema',
  schema: JSON.stringify(schema),
  isWhitespaceFree: false,
})
const compiled = (given: GrammarSpec): string => {
  const { spec, schemas } = toGrammarWork(given)
  return JSON.stringify([schemas, spec.kind === 'ebnf' ? spec.grammar : ''])
}

test('bounds beyond what an answer can come to are none, at each place', () => {
  const schema = schemaOf({
    type: 'object',
    properties: {
      a: { type: 'string', minLength: 1, maxLength: 65_536 },
      b: { type: 'array', items: { type: 'string', minLength: 9000 }, maxItems: 100_000 },
      c: { type: 'string', pattern: '^x{2,70000}$' },
    },
  })
  expect(compiled(schema)).toMatch(/100000.*65536|65536.*100000/)
  const reached = compiled(withReach(schema, 1000))
  expect(reached).not.toMatch(/\{\d+,(?:65536|70000)\}|"maxItems":|\{9000/)
  expect(reached).toContain('{1,}')
  expect(reached).toContain('{1024,}')
  const regex = { kind: 'regex', pattern: 'a{1,5000}b{7}' } as const
  expect(compiled(withReach(regex, 1000))).not.toContain('5000')
  expect(compiled(withReach(regex, 5000))).toContain('5000')
})

test('only large numbers make a grammar one of the length of answers, in powers of two', () => {
  const small = schemaOf({ type: 'string', maxLength: 99 })
  expect(withReach(small, 1000)).toBe(small)
  const large = schemaOf({ type: 'string', maxLength: 5000 })
  expect(withReach(large, 1000)).toEqual(withReach(large, 600))
  expect(withReach(large, 1000)).not.toEqual(withReach(large, 3000))
  expect(withReach(large, 2)).toMatchObject({ reach: 128 })
})

test('the largest parts are named with tool, place and keyword', () => {
  const deep = {
    type: 'object',
    properties: { a: { type: 'object', properties: { c: { type: 'string', maxLength: 65_536 } } } },
  }
  const item = (name: string, parameters: object) => ({
    type: 'object',
    properties: { name: { enum: [name] }, parameters },
  })
  const list = {
    type: 'array',
    minItems: 1,
    maxItems: 16,
    items: { anyOf: [item('mail', deep), item('b', { type: 'string', maxLength: 40 })] },
  }
  expect(largestParts(schemaOf(list))).toEqual([
    'tool "mail", #/properties/a/properties/c/maxLength (65536)',
    'tool "b", #/maxLength (40)',
    '#/maxItems (16)',
  ])
  expect(largestParts({ ...schemaOf(deep), tool: 'mail' } as GrammarSpec)).toEqual([
    'tool "mail", #/properties/a/properties/c/maxLength (65536)',
  ])
  const tag = {
    type: 'tag',
    begin: '{"name": "mail", "arguments": ',
    content: { type: 'json_schema', json_schema: deep },
    end: '}',
  }
  expect(
    largestParts({ kind: 'structural_tag', tag: JSON.stringify({ type: 'structural_tag', format: tag }) }),
  ).toEqual(['tool "mail", #/properties/a/properties/c/maxLength (65536)'])
  expect(largestParts({ kind: 'regex', pattern: '(a{1,200}){1,300}' })).toEqual([
    'the repetition {1,300} (300)',
    'the repetition {1,200} (200)',
  ])
  expect(largestParts({ kind: 'choice', choices: ['a'] })).toEqual([])
})
