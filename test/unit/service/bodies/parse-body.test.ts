/**
 * Checking a body costs what reading it costs, also when every element is wrong.
 */
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { RequestValidationError } from '#api/wire/errors.js'
import { BODIES } from '#service/bodies/bodies.js'
import { parseBody, parseWith } from '#service/bodies/parse-body.js'

/** A schema that counts how often it is asked. */
function counting() {
  let count = 0
  const element = z.unknown().transform((value, context) => {
    count += 1
    if (value === 'bad') context.addIssue({ code: 'custom', message: 'is bad' })
    return value
  })
  return { element, asked: () => count }
}
const problemsOf = (action: () => unknown) => {
  try {
    action()
  } catch (error) {
    if (error instanceof RequestValidationError) return error.problems
    throw error
  }
  return []
}

describe('long lists', () => {
  it('stop at the first slice with a wrong element, whose index is kept', () => {
    const { element, asked } = counting()
    const list = Array.from({ length: 100_000 }, (_, i) => (i < 1234 ? i : 'bad'))
    const problems = problemsOf(() => parseWith(z.object({ list: z.array(element) }), { list }, 'body'))
    expect(problems[0]?.loc).toEqual(['body', 'list', 1234])
    expect(problems.length).toBeLessThanOrEqual(50)
    expect(asked()).toBeLessThan(2000)
  })

  it('stop in the same way for objects, optional ones too', () => {
    const { element, asked } = counting()
    const map = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, 'bad']))
    const schema = z.object({ map: z.record(z.string(), element).nullish() })
    expect(problemsOf(() => parseWith(schema, { map }, 'body'))[0]?.loc).toEqual(['body', 'map', 'k0'])
    expect(asked()).toBeLessThan(1000)
  })

  it('that are right come out whole', () => {
    const list = Array.from({ length: 1000 }, (_, i) => i)
    expect(parseWith(z.object({ list: z.array(z.number()) }), { list }, 'body')).toEqual({ list })
  })
})

describe('a hundred and forty thousand wrong values in one message', () => {
  it('are a refusal, not a fault of ours', () => {
    const text = `{"messages":[{"role":"user","content":"x","tool_calls":[${Array(140_000).fill('1').join(',')}]}]}`
    expect(() => parseBody('chat', [new TextEncoder().encode(text)])).toThrow(/nested values/)
    const value: unknown = JSON.parse(text)
    expect(() => parseWith(BODIES.chat.schema, value, 'body')).toThrow(/validation error|too many wrong values/)
  })
})

/** Bodies whose every field may be left out, or is asked for together with others once they are read. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set([
  'workerHeartbeat',
  'tokenize',
  'addBaseModel',
  'fileStream',
  'response',
])

describe('every kind of body', () => {
  it.each(Object.keys(BODIES) as (keyof typeof BODIES)[])('%s refuses what is no object with a problem', (name) => {
    for (const text of ['[]', 'null', '1', '"x"', '{}']) {
      const read = () => parseBody(name, [new TextEncoder().encode(text)])
      if (MAY_BE_EMPTY.has(name) && text === '{}') continue
      expect(problemsOf(read).length, `${name} ${text}`).toBeGreaterThan(0)
    }
  })
})

describe('fields that no schema knows', () => {
  const read = (body: object) => parseBody('chat', [new TextEncoder().encode(JSON.stringify(body))]).ignoredFields
  const messages = [{ role: 'user', content: 'x', mood: 'kept as it is' }]

  it('are named, as far as they are the own ones of the body', () => {
    expect(read({ messages, temperature: 1, user: 'a' })).toEqual([])
    expect(read({ messages, truncation_side: 'left', constructor: 1, tools: [] })).toEqual([
      'truncation_side',
      'constructor',
    ])
  })

  it('are named up to twenty', () => {
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`x${i}`, i]))
    expect(read({ messages, ...many })).toEqual(Array.from({ length: 20 }, (_, i) => `x${i}`))
  })
})
