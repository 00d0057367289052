/**
 * Structured outputs over HTTP with a real engine host: answers that hold, streamed as plain, and every refusal.
 */
import { Ajv } from 'ajv'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
})
afterAll(() => service.dispose())

const messages = [{ role: 'user', content: 'Answer.' }]
const schema = {
  type: 'object',
  properties: {
    ok: { type: 'boolean' },
    kind: { enum: ['a', 'b'] },
    count: { type: 'integer', minimum: 0, maximum: 99 },
  },
  required: ['ok', 'kind', 'count'],
  additionalProperties: false,
}

async function post(more: object): Promise<{ status: number; body: ChatResponse & { error?: { message: string } } }> {
  return service.json('/v1/chat/completions', { json: { messages, seed: 5, max_tokens: 200, ...more } })
}

async function answer(more: object): Promise<string> {
  const { status, body } = await post(more)
  expect(status, JSON.stringify(body)).toBe(200)
  expect(body.choices[0]?.finish_reason).toBe('stop')
  return body.choices[0]?.message.content ?? ''
}

describe('what an answer is held to', () => {
  const validate = new Ajv().compile(schema)
  const compact = { json: schema, disable_any_whitespace: true }

  it.each<[string, object]>([
    ['structured_outputs.json', { structured_outputs: compact }],
    ['structured_outputs.json as text', { structured_outputs: { ...compact, json: JSON.stringify(schema) } }],
    ['greedy', { structured_outputs: compact, temperature: 0 }],
  ])('%s', async (_, more) => {
    const text = await answer(more)
    expect(validate(JSON.parse(text)), text).toBe(true)
  })

  it.each<[string, object, RegExp]>([
    ['guided_regex', { guided_regex: '[ab]{4}' }, /^[ab]{4}$/],
    ['guided_choice', { guided_choice: ['yes', 'no'] }, /^(yes|no)$/],
    ['guided_grammar', { guided_grammar: 'root ::= "x" [0-9] "y"' }, /^x\dy$/],
    ['grammar', { grammar: 'root ::= "x" [0-9] "y"' }, /^x\dy$/],
    ['guided_json', { guided_json: { enum: ['a', 'b'] } }, /^"[ab]"$/],
    ['guided_json as text', { guided_json: '{"enum": ["a", "b"]}' }, /^"[ab]"$/],
    ['json_schema', { json_schema: { enum: ['a', 'b'] } }, /^"[ab]"$/],
    ['format', { format: { enum: ['a', 'b'] } }, /^"[ab]"$/],
  ])('a field of another dialect: %s', async (_, more, expected) => {
    expect(await answer(more)).toMatch(expected)
  })

  it('a format of json is an object of any shape', async () => {
    const { status, body } = await post({ format: 'json', max_tokens: 20 })
    expect([status, body.choices[0]?.message.content?.trimStart()[0]]).toEqual([200, '{'])
  })

  it('a response format', async () => {
    const { body } = await post({
      response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } },
      // white space is allowed, and a random model likes it
      logit_bias: { '10': -100, '13': -100, '32': -100, '9': -100 },
    })
    const [choice] = body.choices
    if (choice?.finish_reason === 'stop') expect(validate(JSON.parse(choice.message.content ?? ''))).toBe(true)
    expect(choice?.message.content).toMatch(/^\s*\{/)
  })

  it('a pattern, choices, a grammar, every one of n choices', async () => {
    expect(await answer({ structured_outputs: { regex: '[ab]{4}-[0-9]{2}' } })).toMatch(/^[ab]{4}-\d\d$/)
    expect(['yes', 'no']).toContain(await answer({ structured_outputs: { choice: ['yes', 'no'] } }))
    expect(await answer({ structured_outputs: { grammar: 'root ::= "x" [0-9] "y"' } })).toMatch(/^x\dy$/)
    const lark = 'start: pair ("," pair)~1..2\npair: WORD~1 "=" /[0-9]{2}/\nWORD: "a".."e" | "zeta"i'
    expect(await answer({ structured_outputs: { grammar: lark } })).toMatch(
      /^([a-e]|zeta)=\d\d(,([a-e]|zeta)=\d\d){1,2}$/i,
    )
    const { body } = await post({ structured_outputs: { regex: '[a-z]{3}' }, n: 5 })
    expect(body.choices.map((choice) => choice.message.content)).toEqual(
      Array(5).fill(expect.stringMatching(/^[a-z]{3}$/)),
    )
  })

  it('a structural tag', async () => {
    const tag = {
      type: 'structural_tag',
      format: { type: 'tag', begin: '<n>', content: { type: 'regex', pattern: '[0-9]' }, end: '</n>' },
    }
    expect(await answer({ response_format: tag })).toMatch(/^<n>\d<\/n>$/)
  })

  it('streams the same answer', async () => {
    const more = { structured_outputs: { regex: '[ab]{4}-[0-9]{2}' } }
    const response = await service.fetch('/v1/chat/completions', {
      json: { messages, seed: 5, max_tokens: 200, ...more, stream: true },
    })
    const chunks = (await response.text()).split('\n\n').filter((line) => line.startsWith('data: {'))
    const text = chunks.map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '').join('')
    expect(text).toBe(await answer(more))
  })

  it('log-probabilities are those among what is allowed', async () => {
    const { body } = await post({ structured_outputs: { regex: '[ab]' }, logprobs: true, top_logprobs: 4 })
    const [first] = body.choices[0]?.logprobs?.content ?? []
    const allowed = (first?.top_logprobs ?? []).filter(({ logprob }) => logprob > -9999)
    expect(allowed.map(({ token }) => token).sort()).toEqual(['a', 'b'])
    expect(allowed.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 5)
  })
})

describe('a schema that is not strict and says more than can be held to', () => {
  // no three of two values are different
  const threeOfTwo = { type: 'array', items: { enum: ['a', 'b'] }, minItems: 3, maxItems: 3, uniqueItems: true }
  const tool = (strict: boolean) => ({
    type: 'function',
    function: {
      name: 'buy',
      strict,
      parameters: {
        type: 'object',
        properties: { count: { type: 'integer', minimum: 3, maximum: 3, multipleOf: 2 } },
        required: ['count'],
      },
    },
  })
  const choice = { type: 'function', function: { name: 'buy' } }

  it('is held to but for what the header names, and the answer says what it violates', async () => {
    const json = {
      messages,
      seed: 5,
      max_tokens: 100,
      structured_outputs: { json: threeOfTwo, disable_any_whitespace: true },
    }
    const response = await service.fetch('/v1/chat/completions', { json })
    expect(response.headers.get('x-trainyard-ignored-fields')).toBe('structured_outputs.uniqueItems')
    const body = (await response.json()) as ChatResponse
    expect(JSON.parse(body.choices[0]?.message.content ?? '')).toHaveLength(3)
    expect(body.choices[0]?.['x-trainyard-schema-violations']).toEqual([expect.stringContaining('(uniqueItems)')])

    const streamed = await service.fetch('/v1/chat/completions', { json: { ...json, stream: true } })
    expect(streamed.headers.get('x-trainyard-ignored-fields')).toBe('structured_outputs.uniqueItems')
    const chunks = (await streamed.text()).split('\n\n').filter((line) => line.startsWith('data: {'))
    const said = chunks.map((line) => JSON.parse(line.slice(6)).choices[0]?.['x-trainyard-schema-violations'] ?? null)
    expect(said.filter((violations) => violations !== null)).toEqual([
      body.choices[0]?.['x-trainyard-schema-violations'],
    ])
  })

  it('as a response', async () => {
    const text = { format: { type: 'json_schema', name: 'x', schema: threeOfTwo } }
    const json = { input: 'Answer.', text, max_output_tokens: 300, temperature: 0 }
    const response = await service.fetch('/v1/responses', { json })
    expect(response.headers.get('x-trainyard-ignored-fields')).toBe('text.format.uniqueItems')
    const body = (await response.json()) as { status: string; 'x-trainyard-schema-violations'?: string[] }
    const expected = body.status === 'completed' ? [expect.stringContaining('(uniqueItems)')] : undefined
    expect(body['x-trainyard-schema-violations']).toEqual(expected)
  })

  it('of a tool', async () => {
    const { body } = await post({ tools: [tool(false)], tool_choice: choice, temperature: 0 })
    expect(body.choices[0]?.['x-trainyard-schema-violations']).toEqual([
      'buy: /count must be multiple of 2 (multipleOf)',
    ])
    const refused = await post({ tools: [tool(true)], tool_choice: choice })
    expect([refused.status, refused.body.error?.message]).toEqual([400, expect.stringContaining('multipleOf')])
  })

  it('one that is met violates nothing, one that can be held to is not checked', async () => {
    const met = { json: { ...threeOfTwo, minItems: 1, maxItems: 1 }, disable_any_whitespace: true }
    expect((await post({ structured_outputs: met })).body.choices[0]?.['x-trainyard-schema-violations']).toEqual([])
    const { body } = await post({ structured_outputs: { json: schema, disable_any_whitespace: true } })
    expect(body.choices[0]).not.toHaveProperty('x-trainyard-schema-violations')
  })
})

describe('what is refused, each for its own reason', () => {
  it.each<[object, string]>([
    [{ structured_outputs: {} }, 'none are specified'],
    [
      { structured_outputs: { json: schema, regex: 'a' } },
      "only use one kind of constraints for structured outputs ('json'",
    ],
    [{ structured_outputs: { grammar: 'root ::= "a"', json_object: true } }, 'multiple are specified'],
    [{ structured_outputs: { regex: 'a' }, response_format: { type: 'json_object' } }, 'multiple are specified'],
    [
      {
        structured_outputs: { json: schema },
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
      },
      'multiple are specified',
    ],
    [{ structured_outputs: { choice: [] } }, "Choice '[]' cannot be an empty list"],
    [{ structured_outputs: { choice: ['a', 1] } }, 'list of strings'],
    [{ structured_outputs: { grammar: ' ' } }, 'grammar cannot be an empty string'],
    [{ structured_outputs: { json: '' } }, 'json cannot be an empty string'],
    [{ structured_outputs: { json: '{"type":' } }, 'must be JSON text'],
    [{ structured_outputs: { json_object: false } }, 'json_object must be True'],
    [{ structured_outputs: { regex: 7 } }, 'regex must be a string'],
    [{ structured_outputs: { regex: 'a', _backend: 'outlines' } }, 'backend selection is not supported'],
    [{ structured_outputs: { regex: 'a', whitespace_pattern: ' ' } }, 'whitespace_pattern is not supported'],
    [{ response_format: { type: 'yaml' } }, 'got "yaml"'],
    [{ response_format: { type: 'json_schema' } }, "'json_schema' field must be provided"],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'x' } } }, "field 'schema'"],
    [
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'x', strict: true, schema: { type: 'integer', multipleOf: 2 } },
        },
      },
      '#/multipleOf',
    ],
    [{ structured_outputs: { regex: '(a' } }, 'does not close a group'],
    [{ structured_outputs: { grammar: 'root ::= (' } }, 'cannot be compiled'],
    [{ response_format: { type: 'structural_tag', format: { type: 'nonsense' } } }, 'cannot be compiled'],
    [{ structured_outputs: { grammar: 'root ::= root' } }, 'leads only to itself'],
    [{ structured_outputs: { json: { $ref: '#/$defs/a', $defs: { a: { $ref: '#' } } } } }, 'leads only to itself'],
  ])('%j', async (more, words) => {
    for (const stream of [false, true]) {
      const { status, body } = await post({ ...more, stream })
      expect(status).toBe(400)
      expect(body.error?.message).toContain(words)
    }
  })
})

it('a grammar that leads nowhere is the caller’s mistake, also in the middle of a stream', async () => {
  const more = { structured_outputs: { grammar: 'root ::= "ab" rest\nrest ::= rest' } }
  const { status, body } = await post(more)
  expect([status, body.error?.message]).toEqual([400, expect.stringContaining('allows nothing after')])
  const response = await service.fetch('/v1/chat/completions', { json: { messages, ...more, stream: true } })
  const text = await response.text()
  expect(text).toContain('allows nothing after')
  expect(text).toMatch(/"code":400[\s\S]*data: \[DONE\]\s*$/)
})

/** The letters of its classes have bytes in common with others: byte by byte half of one would be enough. */
const CYRILLIC = '^[а-яё]{2,3}$'
const pattern = { type: 'object', properties: { a: { type: 'string', pattern: CYRILLIC } }, required: ['a'] }
describe('letters beyond ASCII are held at every door', () => {
  it.each<[string, object]>([
    ['regex', { structured_outputs: { regex: CYRILLIC } }],
    ['guided_regex', { guided_regex: '(?i)^[А-Я]{2,3}$' }],
    ['GBNF', { grammar: 'root ::= [а-яё]{2,3}' }],
    ['Lark', { grammar: 'start: /[а-яё]{2,3}/' }],
    ['a structural tag', { structured_outputs: { structural_tag: { format: { type: 'regex', pattern: CYRILLIC } } } }],
    ['a schema', { structured_outputs: { json: { type: 'string', pattern: CYRILLIC } } }],
  ])('%s', async (_, more) => {
    const text = await answer({ ...more, temperature: 0 })
    expect(text.replaceAll('"', '')).toMatch(/^[а-яёА-ЯЁᲀ-ᲈ]{2,3}$/)
  })

  it('and in the arguments of a tool', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: pattern } }]
    const tool_choice = { type: 'function', function: { name: 'f' } }
    const { body } = await post({ tools, tool_choice, temperature: 0 })
    const given = body.choices[0]?.message.tool_calls?.[0]?.function.arguments ?? ''
    expect(JSON.parse(given).a).toMatch(/^[а-яё]{2,3}$/)
  })

  it('a point is one character, however many tokens it takes', async () => {
    // the four bytes of U+1F60A, in this order
    const logit_bias = { 249: 90, 168: 85, 161: 80, 147: 75 }
    const { body } = await post({ structured_outputs: { regex: '^.{2}$' }, logit_bias, max_tokens: 8, temperature: 0 })
    expect(Array.from(body.choices[0]?.message.content ?? '')).toHaveLength(2)
    expect(body.choices[0]?.message.content).not.toContain('\ufffd')
  })
})

it('escapes that need none are held; what is a regular expression in no language is refused with its path, strict or not', async () => {
  const format = (given: string) => ({
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'x', schema: { ...pattern, properties: { a: { type: 'string', pattern: given } } } },
    },
  })
  const { status, body } = await post({ ...format('^[A-Z]{2,5}\\-\\d{1,3}$'), temperature: 0 })
  expect(status).toBe(200)
  expect(JSON.parse(body.choices[0]?.message.content ?? '').a).toMatch(/^[A-Z]{2,5}-\d{1,3}$/)
  expect(await post(format('[z-a]'))).toMatchObject({
    status: 400,
    body: { error: { message: expect.stringContaining('#/properties/a/pattern is no regular expression') } },
  })
})

it('answers to an expression, choices, a grammar and a tag are checked by other code, whole and streamed', async () => {
  const { body } = await post({ structured_outputs: { regex: 'a\\-[bc]{3}' } })
  expect(body.choices[0]).toMatchObject({ 'x-trainyard-schema-violations': [] })
  const chosen = await post({ structured_outputs: { choice: ['да', 'нет'] } })
  expect(chosen.body.choices[0]).toMatchObject({ 'x-trainyard-schema-violations': [] })
  for (const grammar of ['root ::= "x" [0-9]{2} [^\\d]', 'start: /x[0-9]+/ "y"i'])
    expect((await post({ grammar })).body.choices[0]).toMatchObject({ 'x-trainyard-schema-violations': [] })
  const content = {
    type: 'json_schema',
    json_schema: { type: 'array', items: { enum: [1] }, minItems: 2, maxItems: 2 },
  }
  const format = { type: 'tag', begin: '<a>', content, end: '</a>' }
  const tagged = await post({ response_format: { type: 'structural_tag', format } })
  expect(tagged.body.choices[0]).toMatchObject({ 'x-trainyard-schema-violations': [] })
  const unheld = { ...format, content: { ...content, json_schema: { ...content.json_schema, uniqueItems: true } } }
  expect(await post({ response_format: { type: 'structural_tag', format: unheld } })).toMatchObject({ status: 400 })
  const json = { messages, stream: true, max_tokens: 20, structured_outputs: { regex: '[bc]{3}' } }
  expect(await (await service.fetch('/v1/chat/completions', { json })).text()).toContain(
    '"x-trainyard-schema-violations":[]',
  )
  // one that a stop of the request ended is not whole, and nothing is said of it
  const stopped = await post({ structured_outputs: { regex: 'ab{1,3}c' }, stop: ['b'] })
  expect(stopped.body.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'a' } })
  expect(stopped.body.choices[0]).not.toHaveProperty('x-trainyard-schema-violations')
})

it.each<[string, object]>([
  ['structured_outputs.choice[0]', { structured_outputs: { choice: ['\ud83d'] } }],
  [
    'response_format.json_schema.schema.enum[1]',
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { enum: ['a', '\ude00'] } } } },
  ],
  ['structured_outputs.json.const', { structured_outputs: { json: { const: 'a\ud83d' } } }],
  ['stop[0]', { stop: ['\ud83d'] }],
  ['tools[0].function.name', { tools: [{ type: 'function', function: { name: 'f\ud83d' } }] }],
  ['messages[0].content', { messages: [{ role: 'user', content: 'cut \ud83d' }] }],
])('half of a surrogate pair in %s is refused', async (path, more) => {
  expect(await post(more)).toMatchObject({
    status: 400,
    body: { error: { param: path, message: expect.stringContaining(`${path} has half of a surrogate pair`) } },
  })
})

it('half of one in a schema that is text is refused with its place', async () => {
  expect(await post({ structured_outputs: { json: '{"enum": ["\\ud83d"]}' } })).toMatchObject({
    status: 400,
    body: { error: { message: 'JSON schema at #/enum/0 has half of a surrogate pair, which is no character' } },
  })
})

it('bounds that no answer can come to are none: a tool with texts of 65,536 characters answers', async () => {
  const long = { type: 'string', maxLength: 65_536, minLength: 1 }
  const lists = {
    type: 'array',
    items: { type: 'string', pattern: '^(\\d+|imap:[A-Za-z0-9_-]{1,5000})$' },
    maxItems: 100_000,
  }
  const parameters = { type: 'object', properties: { a: long, b: long, c: lists }, required: ['a', 'b', 'c'] }
  const tools = [{ type: 'function', function: { name: 'mail', parameters } }]
  expect((await post({ tools, tool_choice: 'required', max_tokens: 2 })).status).toBe(200)
})
