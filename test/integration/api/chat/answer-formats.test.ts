/**
 * Tool calls and reasoning read out of answers, streamed as plain. A grammar of one choice makes the real engine write a given text,
 * a byte a token.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const turns =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n'
const TEMPLATES = {
  hermes: readFileSync(join(packageRoot(), 'test/fixtures/thinking.jinja'), 'utf8'),
  llama: `{% if tools %}Environment: ipython {{ tools | tojson }} {"name": , "parameters": }{% endif %}${turns}`,
  mistral: `{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}{# [TOOL_CALLS] #}{{ '' if tools else '[TOOL_CALLS]'[:0] }}${turns}`,
}

let service: TestService
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const entries = Object.entries(TEMPLATES)
  const baseModels = await Promise.all(entries.map(([name, source]) => templatedModel(folder, name, source)))
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const tool = (name: string) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
})
const tools = [tool('weather'), tool('ping')]
const { both, streamed, plain } = chatAnswers(() => service, {
  model: 'hermes',
  messages: [{ role: 'user', content: 'Well?' }],
  tools,
  temperature: 0,
  max_tokens: 300,
  return_token_ids: true,
  logprobs: true,
})
const writes = (text: string) => ({ structured_outputs: { choice: [text] } })
const call = (name: string, given: string) => `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`
const CALL = call('weather', '{"city": "Rome"}')

interface Read {
  readonly content: string | null
  readonly calls?: readonly (readonly [name: string, given: string])[]
  readonly reasoning?: string
  readonly reason?: string
}

function expectRead(body: ChatResponse, { content, calls = [], reasoning, reason }: Read): void {
  const [choice] = body.choices
  const found = choice?.message.tool_calls.map(({ function: called }) => [called.name, called.arguments])
  expect([choice?.message.content, found]).toEqual([content, calls])
  expect(choice?.message.reasoning).toBe(reasoning ?? null)
  expect(choice?.message.reasoning_content).toBe(reasoning ?? null)
  expect([choice?.finish_reason, choice?.stop_reason]).toEqual([
    reason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    null,
  ])
  // every token is there, whatever became of its text
  expect(choice?.token_ids).toHaveLength(body.usage.completion_tokens)
  expect(choice?.logprobs?.content).toHaveLength(body.usage.completion_tokens)
}

describe('calls between tags (5.2)', () => {
  const rome = ['weather', '{"city": "Rome"}'] as const
  it.each<[string, string, Read, object?]>([
    ['one call', CALL, { content: null, calls: [rome] }],
    ['text before it', `I look. ${CALL}`, { content: 'I look. ', calls: [rome] }],
    ['white space before it', `\n \n${CALL}`, { content: null, calls: [rome] }],
    ['several calls', `${CALL}\n${call('ping', '{}')}`, { content: null, calls: [rome, ['ping', '{}']] }],
    ['an end that was forgotten', CALL.replace('\n</tool_call>', ''), { content: null, calls: [rome] }],
    [
      'arguments as they were written, letters beyond ASCII kept',
      call('weather', '{"city":"Zürich", "n":[1,2.50,{"a":null}]}'),
      { content: null, calls: [['weather', '{"city":"Zürich", "n":[1,2.50,{"a":null}]}']] },
    ],
    ['no arguments', '<tool_call>{"name": "ping"}</tool_call>', { content: null, calls: [['ping', '{}']] }],
    ['no JSON', '<tool_call>{"name": oops}</tool_call>', { content: '<tool_call>{"name": oops}</tool_call>' }],
    [
      'no JSON in one of two',
      `${CALL}<tool_call>{"name"</tool_call>`,
      { content: '<tool_call>{"name"</tool_call>', calls: [rome] },
    ],
    ['no name', '<tool_call>{"arguments": {}}</tool_call>', { content: '<tool_call>{"arguments": {}}</tool_call>' }],
    ['a tag without an object', 'a <tool_call>f()</tool_call> b', { content: 'a <tool_call>f()</tool_call> b' }],
    ['a tag that nothing follows', 'a <tool_call>', { content: 'a <tool_call>' }],
    [
      'an object that the budget ends before its name',
      CALL,
      { content: CALL.slice(0, 16), reason: 'length' },
      { max_tokens: 16 },
    ],
    ['the start of a tag only', 'a <tool_c', { content: 'a <tool_c' }],
    ['what only looks like a tag', 'a <tool> <tool_call b', { content: 'a <tool> <tool_call b' }],
    ['plain text', 'It rains.', { content: 'It rains.' }],
    [
      'the first of several, when calls may not be parallel',
      `${CALL}\n${CALL}`,
      { content: null, calls: [rome] },
      { parallel_tool_calls: false },
    ],
    ['both, when they may', `${CALL}\n${CALL}`, { content: null, calls: [rome, rome] }, { parallel_tool_calls: true }],
    ['no tools', CALL, { content: CALL }, { tools: null }],
    ['tool_choice none', CALL, { content: CALL }, { tool_choice: 'none' }],
    [
      'a budget that ends behind the call',
      CALL,
      { content: null, calls: [rome], reason: 'length' },
      { max_tokens: CALL.length - 1 },
    ],
    [
      'no JSON where the budget ends within the arguments',
      CALL,
      { content: CALL.slice(0, -20), reason: 'length' },
      { max_tokens: CALL.length - 20 },
    ],
  ])('%s', async (name, text, read, more = {}) => {
    const body = await plain({ ...writes(text), ...more })
    expectRead(body, read)
    // what the budget cuts off has been told in pieces by then
    if (!name.startsWith('no JSON where')) await both({ ...writes(text), ...more })
  })

  it('deltas: a name with its id, then pieces of arguments alone; no tag is ever shown', async () => {
    const chunks = await streamed(writes(`Yes. ${CALL}${call('ping', '{}')}`))
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe('Yes. ')
    const pieces = deltas.flatMap(({ tool_calls: calls }) => calls ?? [])
    for (const { tool_calls: calls } of deltas) expect((calls ?? []).length).toBeLessThanOrEqual(1)
    const ids = new Set<string>()
    for (const index of [0, 1]) {
      const [first, ...rest] = pieces.filter((piece) => piece.index === index)
      expect(first).toMatchObject({ type: 'function', function: { name: ['weather', 'ping'][index] } })
      expect(first?.id).toMatch(/^chatcmpl-tool-[0-9a-f]{32}$/)
      ids.add(first?.id ?? '')
      for (const piece of rest) expect(Object.keys(piece).sort()).toEqual(['function', 'index'])
      for (const piece of rest) expect(Object.keys(piece.function)).toEqual(['arguments'])
    }
    expect(ids.size).toBe(2)
  })
})

describe('reasoning (5.4)', () => {
  it.each<[string, string, Read, object?]>([
    [
      'before the answer, whose white space stays',
      '<think>plan</think>\n\nYes.',
      { reasoning: 'plan', content: '\n\nYes.' },
    ],
    [
      'before a call',
      `<think>plan</think>${CALL}`,
      { reasoning: 'plan', content: null, calls: [['weather', '{"city": "Rome"}']] },
    ],
    ['a call that is only thought of', `<think>${CALL}</think>No.`, { reasoning: CALL, content: 'No.' }],
    [
      'cut off by the budget',
      '<think>plan of many words',
      { reasoning: 'plan', content: null, reason: 'length' },
      { max_tokens: 11 },
    ],
    ['not wanted', '<think>plan</think>Yes.', { content: 'Yes.' }, { include_reasoning: false }],
    ['none', 'Yes.', { content: 'Yes.' }],
  ])('%s', async (_, text, read, more = {}) => {
    expectRead(await both({ ...writes(text), ...more }), read)
  })

  it('reaches the OpenAI client for Node, plain, in deltas and in what its stream helper gathers', async () => {
    const client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const body = {
      model: 'hermes',
      messages: [{ role: 'user' as const, content: 'Well?' }],
      temperature: 0,
      ...writes('<think>plan</think>Yes.'),
    }
    const { choices } = await client.chat.completions.create(body)
    expect(choices[0]?.message).toMatchObject({ content: 'Yes.', reasoning_content: 'plan', reasoning: 'plan' })
    const stream = client.chat.completions.stream(body)
    let reasoning = ''
    for await (const { choices: pieces } of stream) {
      const delta: { content?: string | null; reasoning_content?: string } = pieces[0]?.delta ?? {}
      reasoning += delta.reasoning_content ?? ''
    }
    expect(reasoning).toBe('plan')
    expect((await stream.finalChatCompletion()).choices[0]?.message.content).toBe('Yes.')
  })

  it('switched off: the prompt ends with an empty block and the answer is all content', async () => {
    const promptOf = async (more: object): Promise<string> => {
      const { prompt_token_ids: tokens } = await plain({ ...writes('Yes.'), ...more })
      return (await service.json<{ prompt: string }>('/detokenize', { json: { model: 'hermes', tokens } })).body.prompt
    }
    const off = { chat_template_kwargs: { enable_thinking: false } }
    const rendered = await service.json<{ prompt: string }>('/apply-template', {
      json: { model: 'hermes', messages: [{ role: 'user', content: 'Well?' }], tools, ...off },
    })
    expectRead(await both({ ...writes('Yes.'), ...off }), { content: 'Yes.' })
    expect(await promptOf(off)).toMatch(/<\|im_start\|>assistant\n<think>\n\n<\/think>\n\n$/)
    expect(await promptOf(off)).toBe(rendered.body.prompt)
    for (const more of [{}, { chat_template_kwargs: { enable_thinking: true } }, { reasoning_effort: 'high' }]) {
      expect(await promptOf(more)).toMatch(/<\|im_start\|>assistant\n$/)
    }
  })

  it('a delta holds either; text held back for a tag is not lost', async () => {
    const chunks = await streamed(writes('<think>a < b</think>c </think d'))
    for (const { choices } of chunks) {
      for (const { delta } of choices) expect([delta.reasoning, delta.content || undefined]).toContain(undefined)
    }
    const join = (name: 'content' | 'reasoning') =>
      chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta[name] ?? '')).join('')
    expect([join('reasoning'), join('content')]).toEqual(['a < b', 'c </think d'])
  })
})

describe('calls in other families’ forms', () => {
  const given = ['weather', '{"city": "Rome"}'] as const
  it.each<[string, string, Read]>([
    ['llama', '{"name": "weather", "parameters": {"city": "Rome"}}', { content: null, calls: [given] }],
    [
      'llama',
      '{"name": "weather", "parameters": {"city": "Rome"}}; {"name": "ping", "parameters": {}}',
      { content: null, calls: [given, ['ping', '{}']] },
    ],
    ['llama', 'It rains.', { content: 'It rains.' }],
    ['mistral', '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}]', { content: null, calls: [given] }],
    ['mistral', 'It rains.', { content: 'It rains.' }],
  ])('%s: %s', async (model, text, read) => {
    expectRead(await both({ model, ...writes(text) }), read)
  })
})

describe('calls that must come (5.3)', () => {
  const one = { tools: [tool('weather')], logit_bias: { '9': -100, '10': -100, '13': -100, '32': -100 } }
  const constant = { type: 'function', function: { name: 'fixed', parameters: { const: { city: 'Rome' } } } }

  it('a named one is its arguments: no text, ended by stop', async () => {
    const named = { tool_choice: { type: 'function', function: { name: 'fixed' } } }
    const body = await both({ ...one, tools: [constant, ...tools], ...named })
    expect(body.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: '' } })
    expect(body.choices[0]?.message.tool_calls).toMatchObject([{ type: 'function', function: { name: 'fixed' } }])
    expect(JSON.parse(body.choices[0]?.message.tool_calls[0]?.function.arguments ?? '')).toEqual({ city: 'Rome' })
    const cut = await both({ ...one, tools: [constant], ...named, max_tokens: 5 })
    expect(cut.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '' } })
  })

  it('required ones are a list, ended by tool_calls; cut off there is none', async () => {
    // a comma would begin another one
    const onlyOne = { ...one, tools: [constant], tool_choice: 'required', bad_words: ['},'] }
    const [choice] = (await both(onlyOne)).choices
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    expect(choice?.message.tool_calls).toHaveLength(1)
    for (const { function: called } of choice?.message.tool_calls ?? []) {
      expect([called.name, JSON.parse(called.arguments)]).toEqual(['fixed', { city: 'Rome' }])
    }
    // before the name, and within the arguments
    for (const max_tokens of [1, 12, 38]) {
      const cut = await plain({ ...onlyOne, max_tokens })
      expect(cut.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '', tool_calls: [] } })
      const shown = (await streamed({ ...onlyOne, max_tokens })).flatMap(({ choices }) => choices)
      expect(shown.map(({ delta }) => delta.content ?? '').join('')).toBe('')
    }
  })

  it('required ones end, also where a model always begins another', async () => {
    const more = { ...one, tools: [constant], tool_choice: 'required', max_tokens: 1000, logprobs: false }
    const always = { ...more, logit_bias: { ...one.logit_bias, [String(','.charCodeAt(0))]: 100 } }
    for (const [isParallel, count] of [
      [true, 16],
      [false, 1],
    ] as const) {
      const [choice] = (await plain({ ...always, parallel_tool_calls: isParallel })).choices
      expect(choice?.finish_reason).toBe('tool_calls')
      expect(choice?.message.tool_calls).toHaveLength(count)
    }
  })

  it('a stream that is cut off has shown what came of the call, as OpenAI does, and says length', async () => {
    const chunks = await streamed({ ...one, tools: [constant], tool_choice: 'required', max_tokens: 38 })
    const pieces = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
    expect(pieces.map(({ function: { name } }) => name ?? '').join('')).toBe('fixed')
    const given = pieces.map(({ function: called }) => called.arguments).join('')
    expect(given).toMatch(/^\{/)
    expect(() => JSON.parse(given)).toThrow(SyntaxError)
    expect(chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason)).at(-1)).toBe('length')
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? '')).join('')).toBe('')
  })
})
