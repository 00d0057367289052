/**
 * What the fields of a request do to the prompt and around the answer (1.1 to 1.4, 1.6 to 1.8), seen through the template: it prints what
 * it is given. Real engine host.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

/** Prints messages and variables; content stays what the caller sent. */
const SHOWS =
  "{% for m in messages %}[{{ m | tojson }}]{% endfor %}{{ tools | tojson if tools }}{{ documents | tojson if documents }}{{ reasoning_effort | default('') }}{{ mood | default('') }}{% if add_generation_prompt %}>{% endif %}"
/** Loops over the parts of a message. */
const LOOPS =
  '{% for m in messages %}{% for part in m.content %}<{{ part.type }}:{{ part.text }}>{% endfor %}{% endfor %}'

/** Prints the switch of thinking. */
const SWITCH =
  '{% for m in messages %}{{ m.content }}{% endfor %}{{ enable_thinking | tojson if enable_thinking is defined else "unset" }}'

let service: TestService
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const baseModels = [
    await templatedModel(folder, 'shows', SHOWS),
    await templatedModel(folder, 'loops', LOOPS),
    await templatedModel(folder, 'switch', SWITCH),
  ]
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const { plain, both, streamed } = chatAnswers(() => service, { max_tokens: 3, temperature: 0, return_token_ids: true })
const user = (content: unknown) => [{ role: 'user', content }]

async function promptOf(body: object, isKept = 'shows'): Promise<string> {
  const answer = await plain({ model: isKept, max_tokens: 1, ...body })
  const { body: text } = await service.json<{ prompt: string }>('/detokenize', {
    json: { model: isKept, tokens: answer.prompt_token_ids },
  })
  return text.prompt
}
/** The messages as the template saw them. */
async function seen(messages: readonly object[]): Promise<unknown[]> {
  const { body } = await service.json<{ prompt: string }>('/apply-template', { json: { model: 'shows', messages } })
  return [...body.prompt.matchAll(/\[(\{.*?\})\](?=\[|>)/g)].map(([, json]) => JSON.parse(json ?? ''))
}

describe('messages (1.1)', () => {
  const call = (given: unknown) => [{ id: 'c1', type: 'function', function: { name: 'f', arguments: given } }]
  it.each<[string, object, object]>([
    ['a text', { role: 'user', content: 'a' }, { content: 'a' }],
    ['any role', { role: 'narrator', content: 'a' }, { role: 'narrator' }],
    ['a name', { role: 'user', content: 'a', name: 'Ann' }, { name: 'Ann' }],
    ['parts as lines', { role: 'user', content: [{ type: 'text', text: 'a' }, 'b'] }, { content: 'a\nb' }],
    [
      'every kind of text part',
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'a' },
          { type: 'output_text', text: 'b' },
          { type: 'refusal', refusal: 'c' },
          { type: 'thinking', thinking: 'd' },
        ],
      },
      { content: 'a\nb\nc\nd' },
    ],
    ['a part of no text', { role: 'user', content: [{ type: 'text', text: null }, 'b'] }, { content: 'b' }],
    ['arguments as an object', { role: 'assistant', tool_calls: call('{"x": [1]}') }, { tool_calls: call({ x: [1] }) }],
    ['no arguments', { role: 'assistant', tool_calls: call('') }, { tool_calls: call({}) }],
    ['null for arguments', { role: 'assistant', tool_calls: call(null) }, { tool_calls: call({}) }],
    ['a result', { role: 'tool', content: 'r', tool_call_id: 'c1', name: 'f' }, { tool_call_id: 'c1', name: 'f' }],
    ['reasoning', { role: 'assistant', content: 'a', reasoning: 'r' }, { reasoning: 'r', reasoning_content: 'r' }],
    [
      'reasoning under its other name',
      { role: 'assistant', content: 'a', reasoning_content: 'r' },
      { reasoning: 'r', reasoning_content: 'r' },
    ],
    [
      'reasoning under both',
      { role: 'assistant', content: 'a', reasoning: 'new', reasoning_content: 'old' },
      { reasoning: 'new', reasoning_content: 'new' },
    ],
    ['unknown keys, ignored', { role: 'user', content: 'a', mystery: 1 }, { content: 'a' }],
  ])('%s', async (_, given, expected) => {
    const [message] = await seen([given, { role: 'user', content: 'end' }])
    expect(message).toMatchObject(expected)
  })

  it('an empty list of calls is none', async () => {
    const [message] = await seen([{ role: 'assistant', content: 'a', tool_calls: [] }, ...user('end')])
    expect((message as { tool_calls?: unknown }).tool_calls ?? null).toBeNull()
  })

  it('parts stay parts for a template that loops over them, and a text becomes one', async () => {
    const messages = [...user([{ type: 'text', text: 'a' }, 'b']), ...user('c')]
    expect(await promptOf({ messages }, 'loops')).toBe('<text:a><text:b><text:c>')
  })
})

describe('naming (1.2)', () => {
  it('without a model the first base model answers', async () => {
    for (const more of [{}, { model: null }, { model: '' }]) {
      expect((await plain({ messages: user('a'), ...more })).model).toBe('shows')
    }
  })

  it('an id may be given twice, also at once', async () => {
    const twice = { messages: user('a'), model: 'shows', request_id: 'same' }
    const answers = await Promise.all([plain(twice), plain(twice)])
    expect(answers.map(({ id }) => id)).toEqual(['chatcmpl-same', 'chatcmpl-same'])
    const { id } = await plain({ messages: user('a'), model: 'shows' })
    expect(id).toMatch(/^chatcmpl-[0-9a-f]{16,32}$/)
    expect(new Set((await streamed(twice)).map((chunk) => chunk.id))).toEqual(new Set(['chatcmpl-same']))
  })

  it('only requests of one cache_salt share what was computed', async () => {
    const long = { model: 'shows', messages: user(`salt ${'x'.repeat(100)}`) }
    const cached = async (more: object) =>
      (await plain({ ...long, ...more })).usage.prompt_tokens_details?.cached_tokens ?? -1
    expect(await cached({ cache_salt: 'one' })).toBe(0)
    const known = await cached({ cache_salt: 'one' })
    // whole blocks, and never the last token
    expect([known > 0, known % 16]).toEqual([true, 0])
    expect(await cached({ cache_salt: 'two' })).toBe(0)
    // without one others may have begun with the same words
    expect(await cached({})).toBeLessThan(known)
  })

  it('documents and variables reach the template, a variable of the request before the effort', async () => {
    const messages = user('a')
    expect(await promptOf({ messages, documents: [{ text: 'doc' }] })).toContain('[{"text": "doc"}]')
    expect(await promptOf({ messages, chat_template_kwargs: { mood: 'glad' } })).toMatch(/glad>$/)
    for (const effort of ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']) {
      expect(await promptOf({ messages, reasoning_effort: effort })).toContain(effort)
    }
    expect(
      await promptOf({ messages, chat_template_kwargs: { reasoning_effort: 'own' }, reasoning_effort: 'low' }),
    ).toMatch(/own>$/)
  })

  it('an effort of none switches thinking off where the template has a switch, any other on, unless a variable says so', async () => {
    const prompts = async (more: object) => promptOf({ messages: user('a'), ...more }, 'switch')
    expect(await prompts({})).toMatch(/unset$/)
    expect(await prompts({ reasoning_effort: 'none' })).toMatch(/false$/)
    expect(await prompts({ reasoning_effort: 'minimal' })).toMatch(/true$/)
    const own = { chat_template_kwargs: { enable_thinking: true } }
    expect(await prompts({ reasoning_effort: 'none', ...own })).toMatch(/true$/)
  })
})

describe('rendering (1.3)', () => {
  it('add_generation_prompt is true unless it is false; the answer then has the last message’s role', async () => {
    const messages = user('a')
    expect(await promptOf({ messages })).toMatch(/>$/)
    expect(await promptOf({ messages, add_generation_prompt: false })).not.toMatch(/>$/)
    const body = await both({ model: 'shows', messages, add_generation_prompt: false })
    expect(body.choices[0]?.message.role).toBe('user')
    expect((await both({ model: 'shows', messages })).choices[0]?.message.role).toBe('assistant')
  })

  it('a continued message ends the prompt, with and without add_generation_prompt: false', async () => {
    const messages = [...user('a'), { role: 'assistant', content: 'Well then' }]
    for (const more of [{}, { add_generation_prompt: false }, { add_generation_prompt: null }]) {
      expect(await promptOf({ messages, continue_final_message: true, ...more })).toMatch(/Well then$/)
    }
    const parts = [...user('a'), { role: 'assistant', content: [{ type: 'text', text: 'Well then' }] }]
    expect(await promptOf({ messages: parts, continue_final_message: true })).toMatch(/Well then$/)
  })

  it('tools are shown to the template, also where none may be called', async () => {
    const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
    const shown = { messages: user('a'), tools, tool_choice: 'none' }
    expect(await promptOf(shown)).toContain('"name": "look"')
    expect(await promptOf({ messages: user('a') })).not.toContain('look')
  })
})

describe('lengths (1.4) and streams (1.7)', () => {
  const open = { model: 'shows', messages: user('a'), ignore_eos: true }

  it('max_completion_tokens goes before max_tokens; with neither the context is the limit', async () => {
    expect((await both({ ...open, max_tokens: 9, max_completion_tokens: 2 })).usage.completion_tokens).toBe(2)
    expect((await both({ ...open, max_tokens: 2, max_completion_tokens: null })).usage.completion_tokens).toBe(2)
    const { usage } = await plain({ ...open, max_tokens: null })
    expect(usage.total_tokens).toBe(2048)
    expect(usage.prompt_tokens + usage.completion_tokens).toBe(usage.total_tokens)
  })

  it('special tokens are no text unless they are wanted, ids in either case', async () => {
    const special = { ...open, allowed_token_ids: [257], max_tokens: 2 }
    const hidden = await both(special)
    expect([hidden.choices[0]?.message.content, hidden.choices[0]?.token_ids]).toEqual(['', [257, 257]])
    const shown = await both({ ...special, skip_special_tokens: false })
    expect(shown.choices[0]?.message.content).toBe('<|im_start|><|im_start|>')
  })

  it('usage is counted once for the prompt, for every choice of the answer', async () => {
    const one = (await plain(open)).usage
    const several = await both({ ...open, n: 3, temperature: 1, seed: 1 })
    expect(several.usage).toMatchObject({ prompt_tokens: one.prompt_tokens, completion_tokens: 9 })
    expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2])
  })

  it('chunks: one choice each, the role first and once, nulls where nothing is, the end with the last text', async () => {
    const chunks = await streamed({
      ...open,
      n: 2,
      temperature: 1,
      seed: 3,
      return_token_ids: null,
      logit_bias: { 65: 100 },
    })
    for (const chunk of chunks) {
      expect(chunk).toMatchObject({
        id: chunks[0]?.id,
        created: chunks[0]?.created,
        model: 'shows',
        object: 'chat.completion.chunk',
      })
      expect(chunk.choices).toHaveLength(1)
      expect(chunk).not.toHaveProperty('usage')
    }
    for (const index of [0, 1]) {
      const own = chunks.filter(({ choices }) => choices[0]?.index === index)
      const [first, ...rest] = own
      expect(first).toMatchObject({ prompt_token_ids: null })
      expect(first?.choices[0]).toEqual({
        index,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
      })
      for (const { choices } of rest) expect(choices[0]?.delta).not.toHaveProperty('role')
      for (const chunk of rest) expect(chunk).not.toHaveProperty('prompt_token_ids')
      expect(rest.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, 'length'])
      expect(rest.at(-1)?.choices[0]).toMatchObject({ delta: { content: 'A' }, stop_reason: null, token_ids: null })
    }
  })

  it('a step that shows no text sends its token ids all the same', async () => {
    const chunks = await streamed({ ...open, structured_outputs: { choice: ['日'] }, max_tokens: 3 })
    expect(
      chunks.slice(1).map(({ choices }) => [choices[0]?.delta.content ?? '', choices[0]?.token_ids?.length]),
    ).toEqual([
      ['', 1],
      ['', 1],
      ['日', 1],
    ])
    const quiet = await streamed({
      ...open,
      structured_outputs: { choice: ['日'] },
      max_tokens: 3,
      return_token_ids: false,
    })
    expect(quiet.slice(1)).toHaveLength(1)
  })
})
