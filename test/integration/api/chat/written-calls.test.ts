/**
 * Calls as a model wrote them, with the real engine: whatever JSON it is, the whole answer says what the stream says and what was
 * sampled, and the prompt of the next turn begins with the tokens of the last one. A call that is none is text through every door:
 * a scripted engine, whose answer repeats the last message.
 */
import { afterAll, beforeAll, expect, it, test } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let scripted: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'], threads: 1 })
  scripted = await createTestService()
})
afterAll(async () => {
  await service.dispose()
  await scripted.dispose()
})

const TOOLS = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
const user = { role: 'user', content: 'Hi' }

/** A request whose answer can only be this text. */
const forced = (text: string, more: object = {}) => ({
  messages: [user],
  tools: TOOLS,
  max_tokens: 1000,
  temperature: 0,
  return_token_ids: true,
  structured_outputs: { choice: [text] },
  ...more,
})

async function eventsOf(at: TestService, path: string, json: object): Promise<readonly Record<string, unknown>[]> {
  const text = await (await at.fetch(path, { json: { ...json, stream: true } })).text()
  const data = text.split('\n').filter((line) => line.startsWith('data: {'))
  return data.map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>)
}

const NUMBERS = ['0', '-0', '5', '5.0', '1e2', '1E-7', '2512292042121000001', '-9223372036854775808', '0.10', '1e400']
const TEXTS = [
  '""',
  '"a/b"',
  '"a\\/b"',
  '"\\u00e9é"',
  '"\\ud83d\\ude00"',
  '"\\ud83d"',
  '"\u2028"',
  '"</tool_call>"',
  '"\\n\\t\\""',
]
const KEYS = ['"id"', '"p"', '"2"', '"1"', '"__proto__"', '"a b"', '"\\u0061"', '"constructor"']

/** Random JSON as somebody might write it: any spacing, escapes, order, and keys that stand twice. */
function writtenValue(rng: Rng, depth: number): string {
  const pick = (list: readonly string[]): string => list[Math.floor(rng.uniform() * list.length)] ?? ''
  const space = (): string => pick(['', '', ' ', '  ', '\n'])
  const kind = depth > 2 ? Math.floor(rng.uniform() * 3) : Math.floor(rng.uniform() * 5)
  if (kind === 0) return pick(NUMBERS)
  if (kind === 1) return pick(TEXTS)
  if (kind === 2) return pick(['true', 'false', 'null'])
  const items = Array.from({ length: Math.floor(rng.uniform() * 4) }, () => writtenValue(rng, depth + 1))
  if (kind === 3) return `[${space()}${items.join(`,${space()}`)}${space()}]`
  return `{${space()}${items.map((item) => `${pick(KEYS)}${space()}:${space()}${item}`).join(`${space()},${space()}`)}${space()}}`
}

function writtenObject(rng: Rng): string {
  for (;;) {
    const value = writtenValue(rng, 0)
    if (value.startsWith('{')) return value
  }
}

test.each(Array.from({ length: 12 }, (_, seed) => seed))('whatever was written comes back, seed %i', async (seed) => {
  const rng = createRng(BigInt(seed))
  const given = writtenObject(rng)
  const text = `<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`
  const { body: whole } = await service.json<ChatResponse>('/v1/chat/completions', { json: forced(text) })
  const [choice] = whole.choices
  expect(choice?.message.tool_calls?.map((call) => call.function.arguments)).toEqual([given])
  const chunks = (await eventsOf(service, '/v1/chat/completions', forced(text))) as unknown as readonly ChatChunk[]
  const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? [])
  expect(calls.map((call) => call.function.arguments ?? '').join('')).toBe(given)

  // a constraint makes the model take other tokens for the same text than a prompt has: texts are compared, and the tokens of texts
  const sampled = [...(whole.prompt_token_ids ?? []), ...(choice?.token_ids ?? [])]
  const { body: first } = await service.json<{ prompt: string }>('/detokenize', { json: { tokens: sampled } })
  expect(first.prompt).toContain(given)
  const call = choice?.message.tool_calls?.[0]
  const result = { role: 'tool', tool_call_id: call?.id, content: 'ok' }
  const next = { messages: [user, choice?.message, result], tools: TOOLS }
  const { body: second } = await service.json<{ prompt: string }>('/apply-template', { json: next })
  expect(second.prompt.slice(0, first.prompt.length)).toBe(first.prompt)
  const tokensOf = async (json: object) => (await service.json<{ tokens: number[] }>('/tokenize', { json })).body.tokens
  const beginning = await tokensOf({ prompt: first.prompt, add_special_tokens: false })
  expect((await tokensOf(next)).slice(0, beginning.length)).toEqual(beginning)
})

/** Behind the name that the stand-in writes first. */
const NO_CALLS = [
  '<tool_call>\n{"name": "At", "arguments": {"a": 1}}\n</tool_call>',
  '<tool_call>\n{"name": "f", "arguments": {city: Oslo}}\n</tool_call>',
  '<tool_call>f()</tool_call>',
  'Well. <tool_call>\n{"name": "f"',
]

interface Item {
  readonly type: string
  readonly content?: readonly { readonly text: string }[]
}

it.each(NO_CALLS)('what is no call is text of a response, streamed or not: %s', async (text) => {
  const json = {
    input: text,
    tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }],
    max_output_tokens: 200,
    temperature: 0,
  }
  const { body } = await scripted.json<{ output: readonly Item[] }>('/v1/responses', { json })
  expect(body.output.map(({ type }) => type)).toEqual(['message'])
  expect(body.output[0]?.content?.[0]?.text).toBe(`base:${text}`)
  const events = await eventsOf(scripted, '/v1/responses', json)
  const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
  expect(deltas.map(({ delta }) => delta).join('')).toBe(`base:${text}`)
  expect(JSON.stringify(events)).not.toContain('"function_call"')
})

it.each(NO_CALLS)('what is no call is text of a message, streamed or not: %s', async (text) => {
  const json = {
    model: 'trainyard/tiny-random',
    messages: [{ role: 'user', content: text }],
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    max_tokens: 200,
    temperature: 0,
  }
  const { body } = await scripted.json<{ content: readonly { type: string; text: string }[] }>('/v1/messages', { json })
  expect(body.content).toMatchObject([{ type: 'text', text: `base:${text}` }])
  const events = await eventsOf(scripted, '/v1/messages', json)
  const deltas = events.flatMap(({ delta }) => (delta as { text?: string } | undefined)?.text ?? [])
  expect(deltas.join('')).toBe(`base:${text}`)
  expect(JSON.stringify(events)).not.toContain('"tool_use"')
})
