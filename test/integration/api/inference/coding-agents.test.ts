/** What Claude Code sends to `/v1/messages`: system messages in the middle, and a first line that differs from request to request. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

/** As Qwen 3.5's, and as Gemma 2's, refuse. */
const TURN =
  '<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n'
const END = '<|im_start|>assistant\n'
const refuse = (condition: string, words: string) =>
  `{% if m.role == "system"${condition} %}{{ raise_exception("${words}") }}{% endif %}`
const TOOLS = '{% if tools %}{{ tools | tojson }}{% endif %}'
const TEMPLATES = {
  first: `${TOOLS}{% for m in messages %}${refuse(' and not loop.first', 'System message must be at the beginning.')}${TURN}{% endfor %}${END}`,
  silent: `${TOOLS}{% for m in messages %}{% if m.role != "system" or loop.first %}${TURN}{% endif %}{% endfor %}${END}`,
  none: `${TOOLS}{% for m in messages %}${refuse('', 'System role not supported')}${TURN}{% endfor %}${END}`,
}

let service: TestService
let folder: string
let client: Anthropic
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const models = Object.entries(TEMPLATES).map(([name, source]) => templatedModel(folder, name, source))
  const baseModels = [...(await Promise.all(models)), 'trainyard/spark' as const]
  service = await createTestService({ scripted: false, threads: 1, trainWorkers: 0, baseModels })
  client = new Anthropic({ apiKey: service.apiKey, baseURL: service.url, maxRetries: 0 })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const system = { role: 'system' as const, content: 'S' }
const tools: Anthropic.Tool[] = [{ name: 'ls', input_schema: { type: 'object', properties: {} } }]
const use = { role: 'assistant' as const, content: [{ type: 'tool_use' as const, id: 't', name: 'ls', input: {} }] }
const result = { role: 'user' as const, content: [{ type: 'tool_result' as const, tool_use_id: 't', content: 'x' }] }
const [a, b, c] = [
  { role: 'user' as const, content: 'a' },
  { role: 'assistant' as const, content: 'b' },
  { role: 'user' as const, content: 'c' },
]
const PLACES: Record<string, object[]> = {
  'between two turns': [a, b, system, c],
  'between a call and its result': [a, use, system, result],
  last: [a, b, c, system],
  'behind a result': [a, use, result, system],
}

describe('a system message in the middle', () => {
  const cases = Object.keys(TEMPLATES).flatMap((model) => Object.keys(PLACES).map((place) => [model, place] as const))
  it.each(cases)('on a template that takes it otherwise (%s): %s', async (model, place) => {
    const messages = PLACES[place] as Anthropic.MessageParam[]
    // a random model may end its turn at any time
    const body = { model, max_tokens: 4, messages, tools, system: 'First.', ...({ ignore_eos: true } as object) }
    const whole = await client.messages.create(body)
    expect(whole.stop_reason).toBe('max_tokens')
    const streamed = await client.messages.stream(body).finalMessage()
    expect(streamed.usage.output_tokens).toBe(4)
    // the same prompt is counted; the text is in it, once
    const { input_tokens } = await client.messages.countTokens({ model, messages, tools, system: 'First.' })
    const { cache_read_input_tokens: cached, input_tokens: computed } = whole.usage
    expect(computed + (cached ?? 0)).toBe(input_tokens)
    const without = messages.filter(({ role }) => (role as string) !== 'system')
    const { input_tokens: shorter } = await client.messages.countTokens({
      model,
      messages: without,
      tools,
      system: 'First.',
    })
    expect(input_tokens).toBeGreaterThan(shorter)
  })

  it('is what the template says in chat completions', async () => {
    const json = { model: 'first', max_tokens: 4, messages: [a, b, system, c] }
    const { status, body } = await service.json<{ error: { message: string } }>('/v1/chat/completions', { json })
    expect([status, body.error.message]).toEqual([400, 'System message must be at the beginning.'])
  })
})

describe('the line of an accounting', () => {
  const long = 'You are helpful. '.repeat(200)
  const line = (cch: string) => `x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=${cch};`
  const asBlocks = (cch: string) => [
    { type: 'text' as const, text: line(cch) },
    { type: 'text' as const, text: long },
  ]

  it.each<[string, (cch: string) => string | Anthropic.TextBlockParam[]]>([
    ['in a block of its own', asBlocks],
    ['in the first line', (cch) => `${line(cch)}\n${long}`],
    ['before the first words', (cch) => `${line(cch)}${long}`],
  ])('is no part of the prompt: %s', async (_, systemOf) => {
    const send = async (cch: string) => {
      const body = { model: 'trainyard/spark', max_tokens: 2, system: systemOf(cch), messages: [a] }
      const { data, response } = await client.messages.create(body).withResponse()
      expect(response.headers.get('x-trainyard-ignored-fields')).toContain('system.x-anthropic-billing-header')
      return data.usage
    }
    const { input_tokens: computed, cache_read_input_tokens: known } = await send('a1b2c')
    const total = computed + (known ?? 0)
    const second = await send('d3e4f')
    expect(second.input_tokens + (second.cache_read_input_tokens ?? 0)).toBe(total)
    expect(second.cache_read_input_tokens).toBeGreaterThan(total - 32)
  })

  it('leaves alone what only mentions it', async () => {
    const count = async (text: string) => {
      const { input_tokens } = await client.messages.countTokens({
        model: 'trainyard/spark',
        system: text,
        messages: [a],
      })
      return input_tokens
    }
    const said = 'Say x-anthropic-billing-header: cch=1;'
    expect(await count(said)).toBeGreaterThan(await count('Say '))
  })
})
