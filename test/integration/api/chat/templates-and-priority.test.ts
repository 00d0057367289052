/**
 * What a server allows only when it is told to: chat templates of requests, and priorities. Real engine host.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({
    scripted: false,
    threads: 1,
    baseModels: ['trainyard/spark'],
    maxConcurrentSequences: 1,
    schedulingPolicy: 'priority',
    trustsRequestChatTemplate: true,
  })
})
afterAll(() => service.dispose())

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'What is 7 + 5?' }]
type Answer = { status: number; body: ChatResponse & { error?: { message: string; param: string } } }
const post = (more: object): Promise<Answer> =>
  service.json(CHAT, { json: { messages, temperature: 0, max_tokens: 8, return_token_ids: true, ...more } })

async function promptOf(more: object): Promise<string> {
  const { status, body } = await post(more)
  expect(status, JSON.stringify(body)).toBe(200)
  const { body: text } = await service.json<{ prompt: string }>('/detokenize', {
    json: { tokens: body.prompt_token_ids },
  })
  return text.prompt
}

it('what the template does not read is named, in the words of each API', async () => {
  const ignored = async (path: string, json: object): Promise<string | null> => {
    const response = await service.fetch(path, { json })
    expect(response.status, await response.text()).toBe(200)
    return response.headers.get('x-trainyard-ignored-fields')
  }
  const unread = {
    documents: [{ title: 'a', text: 'b' }],
    chat_template_kwargs: { tone: 'kind' },
    reasoning_effort: 'low',
  }
  expect(await ignored(CHAT, { messages, max_tokens: 1, ...unread })).toBe(
    'documents, reasoning_effort, chat_template_kwargs.tone',
  )
  expect(await ignored(CHAT, { messages, max_tokens: 1, reasoning_effort: 'none' })).toBeNull()
  // the request's own template reads it
  const own = { chat_template: '{{ messages[0].content }}{{ tone }}', chat_template_kwargs: { tone: 'kind' } }
  expect(await ignored(CHAT, { messages, max_tokens: 1, ...own })).toBeNull()
  const reasoning = { effort: 'low' }
  expect(await ignored('/v1/responses', { input: 'Hi.', max_output_tokens: 16, reasoning })).toBe('reasoning.effort')
  const message = { model: 'trainyard/spark', messages, max_tokens: 1 }
  const thinking = { type: 'enabled', budget_tokens: 1024 }
  expect(await ignored('/v1/messages', { ...message, thinking })).toContain('thinking')
  expect(await ignored('/v1/messages', { ...message, thinking: { type: 'disabled' } })).toBeNull()
})

describe('chat_template', () => {
  const template = '{% for m in messages %}[{{ m.role }}] {{ m.content }} {{ tone }}{% endfor %}'

  it('takes the place of the model’s own, also out of the kwargs', async () => {
    const kwargs = { tone: 'please' }
    expect(await promptOf({ chat_template: template, chat_template_kwargs: kwargs })).toBe(
      '[user] What is 7 + 5? please',
    )
    expect(await promptOf({ chat_template_kwargs: { ...kwargs, chat_template: template } })).toBe(
      '[user] What is 7 + 5? please',
    )
    const rendered = await service.json<{ prompt: string }>('/apply-template', {
      json: { messages, chat_template: template },
    })
    expect(rendered.body.prompt).toBe('[user] What is 7 + 5? ')
    expect(await promptOf({})).not.toContain('[user]')
  })

  it('keeps text of the caller text', async () => {
    const said = [{ role: 'user', content: 'a <|im_end|> b' }]
    const { body } = await post({ messages: said, chat_template: '{{ messages[0].content }}' })
    const ids = body.prompt_token_ids ?? []
    const { body: plain } = await service.json<{ tokens: number[] }>('/tokenize', {
      json: { prompt: '<|im_end|>', add_special_tokens: false },
    })
    expect(plain.tokens).toHaveLength(1)
    expect(ids).not.toContain(plain.tokens[0])
  })

  it.each<[string, string, string]>([
    ['that is no Jinja', '{% for %}', 'cannot be parsed'],
    ['that refuses', '{{ raise_exception("not like this") }}', 'not like this'],
    ['that is too long', 'x'.repeat(300_000), 'at most 262144 characters'],
    [
      'that writes too much',
      '{% for i in range(100000) %}{% for j in range(1000) %}{{ "x" * 100000 }}{% endfor %}{% endfor %}',
      'chat template',
    ],
  ])('%s is refused', async (_, source, words) => {
    const { status, body } = await post({ chat_template: source })
    expect([status, body.error?.message]).toEqual([400, expect.stringContaining(words)])
  })

  it.each([
    '{{ [1] * 10**9 }}',
    "{{ 'x' * 10**9 }}",
    '{{ range(10**9) }}',
    "{{ ('x' * 60000000).replace('x', 'y' * 1000) }}",
    '{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}',
    "{% set ns = namespace(x=['a', 1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
  ])('that asks for more memory than there is is refused, and the engine of all lives: %s', async (source) => {
    expect((await post({})).status).toBe(200)
    const engine = service.enginePids()
    const { status, body } = await post({ chat_template: source })
    const words =
      /^chat template (makes a list of more than|writes more than|asks for a range of more than|takes too long)/
    expect([status, body.error?.message]).toEqual([400, expect.stringMatching(words)])
    expect((await post({})).status).toBe(200)
    expect(service.enginePids()).toEqual(engine)
  })

  it('that takes too long ends at its limit, and others are answered meanwhile', async () => {
    const endless = '{% for i in range(100000) %}{% for j in range(100000) %}{% set x = i %}{% endfor %}{% endfor %}'
    // a busy machine may hold the other one up until then: not every time
    await until(async () => {
      let isOver = false
      const slow = post({ chat_template: endless }).then((answer) => {
        isOver = true
        return answer
      })
      expect((await post({})).status).toBe(200)
      const isAnsweredMeanwhile = !isOver
      const { status, body } = await slow
      expect([status, body.error?.message]).toEqual([400, expect.stringContaining('takes too long')])
      return isAnsweredMeanwhile
    }, 'an answer while a template is rendered')
  })
})

describe('priority', () => {
  it('a lower number goes first', async () => {
    const order: string[] = []
    const ask = async (name: string, more: object): Promise<void> => {
      expect((await post({ messages: [{ role: 'user', content: name }], ...more })).status).toBe(200)
      order.push(name)
    }
    const long = { ignore_eos: true, max_tokens: 60 }
    // one row only, and an engine that goes on when all of them are there
    const [pid = 0] = service.enginePids()
    process.kill(pid, 'SIGSTOP')
    const asked = [
      ask('first', { ...long, priority: -9 }),
      ...['late', 'later'].map((name) => ask(name, { ...long, priority: 5 })),
      ask('urgent', { priority: -1 }),
    ]
    await service.untilEngineHas({ waiting: 4 })
    process.kill(pid, 'SIGCONT')
    await Promise.all(asked)
    expect(order.indexOf('urgent')).toBeLessThan(order.indexOf('late'))
    expect(order.indexOf('urgent')).toBeLessThan(order.indexOf('later'))
  })
})
