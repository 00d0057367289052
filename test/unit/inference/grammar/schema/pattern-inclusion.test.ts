/** Inclusion of regular expressions: decided cases, formats as libraries write them, and against texts that are tried out. */
import { describe, expect, it, test } from 'vitest'
import { z } from 'zod'
import { toGrammarSchema } from '#inference/grammar/schema/json-schema.js'
import { isPatternWithin } from '#inference/grammar/schema/pattern-inclusion.js'
import { formatDefinition } from '#inference/grammar/schema/string-format.js'
import { expectCode } from '../../../../support/expect-code.js'

describe('isPatternWithin', () => {
  test.each([
    ['a', 'a', true],
    ['a', 'a|b', true],
    ['a|b', 'a', false],
    ['a{2,3}', 'a+', true],
    ['a*', 'a+', false],
    ['', 'a?', true],
    ['(?:ab)*', '(?:a|b)*', true],
    ['(?:a|b)*', '(?:ab)*', false],
    ['[b-y]+', '[a-mn-z]*', true],
    ['[^a]', '[b-z]', false],
    ['.', '[^\\n\\r\\u2028\\u2029]', true],
    ['^a$|^b$', 'a|b', true],
    ['(?:a|aa){3}', 'a{3,6}', true],
    ['(?:a|aa){3}', 'a{3,5}', false],
  ])('%s within %s: %s', (inner, outer, isWithin) => {
    expect(isPatternWithin(inner, outer)).toBe(isWithin)
  })

  it('reads deeply nested groups once each', () => {
    const deep = (depth: number): string => (depth === 0 ? 'a' : `(?:${deep(depth - 1)})`)
    expect(isPatternWithin(deep(30), 'a')).toBe(true)
    expect(isPatternWithin('https://[a-z]+\\.com(?:/[a-z]*)*', formatDefinition('uri') ?? '')).toBe(true)
  })

  it('gives up what is too large', () => {
    expect(isPatternWithin('(?:a{1000}){1000}', 'a*')).toBe(false)
  })

  it('agrees with texts that are tried out', () => {
    const texts = ['']
    for (let at = 0; at < texts.length && texts.length < 400; at++)
      texts.push(...['a', 'b', 'c'].map((letter) => `${texts[at]}${letter}`))
    const patterns = ['a*b', '(?:a|bc)*', 'a+b?c{0,2}', '[ab]{1,3}c?', '(?:a?b)+', '[^c]*', 'abc|cab|a']
    const matches = (pattern: string): string[] => texts.filter((text) => new RegExp(`^(?:${pattern})$`).test(text))
    for (const inner of patterns) {
      for (const outer of patterns) {
        const all = new Set(matches(outer))
        expect(isPatternWithin(inner, outer), `${inner} within ${outer}`).toBe(
          matches(inner).every((text) => all.has(text)),
        )
      }
    }
  })
})

describe('a pattern beside a format', () => {
  test.each(['email', 'uuid', 'uuidv4', 'guid', 'ipv4', 'ipv6', 'nanoid', 'cuid', 'cuid2', 'ulid', 'e164'] as const)(
    'is held to as zod writes it: %s',
    (name) => {
      const { pattern, format } = z.toJSONSchema(z[name]()) as { pattern: string; format: string }
      const { patches } = toGrammarSchema({ type: 'string', pattern, format })
      expect(patches).toEqual(toGrammarSchema({ type: 'string', pattern }).patches)
    },
  )

  test.each([z.iso.date(), z.iso.datetime(), z.iso.datetime({ offset: true, precision: 3 })])('dates', (schema) => {
    const { pattern, format } = z.toJSONSchema(schema) as { pattern: string; format: string }
    expect(isPatternWithin(pattern, formatDefinition(format) ?? '')).toBe(true)
  })

  it('is refused where it matches what has not the format, and by its own name where it is not read', async () => {
    const date = { type: 'string', format: 'date', pattern: '^\\d{4}-\\d{2}-\\d{2}$' }
    await expectCode(() => toGrammarSchema(date), 'unsupported_schema', 'no "date"')
    const around = { type: 'string', format: 'hostname', pattern: '^(?=a)b$' }
    await expectCode(() => toGrammarSchema(around), 'unsupported_schema', '#/pattern', 'looks around')
  })
})
