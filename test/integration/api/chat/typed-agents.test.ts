/**
 * Tools and a response format in one request: an answer is calls or the object, held to one grammar, over chat, responses and messages;
 * and forms of calls that are no JSON objects, end to end. Constants leave the engine one choice, the first byte, which a bias makes.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { templatedModel } from '../../../support/service/templated-model.js'

const turns =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n'
const shown = '{% if tools %}{{ tools | tojson }}{% endif %}'
const TEMPLATES = {
  hermes: `${shown}{# <tool_call> #}{{ '<tool_call>'[:0] }}${turns}`,
  mistral: `${shown}{{ '[TOOL_CALLS]'[:0] }}${turns}`,
  llama: `{% if tools %}ipython{{ tools | tojson }} parameters{% endif %}${turns}`,
  coder: `${shown}{{ '<tool_call><function=><parameter='[:0] }}${turns}`,
  pythonic: `${shown}{{ '[func_name1('[:0] }}${turns}`,
  plain: turns,
  unread: `${shown}{{ '<minimax:tool_call><invoke name='[:0] }}${turns}`,
  // the same, whose form the operator knows
  told: `${shown}{{ '<minimax:tool_call><invoke name='[:0] }}${turns}`,
}

let service: TestService
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const entries = Object.entries(TEMPLATES)
  const baseModels = await Promise.all(entries.map(([name, source]) => templatedModel(folder, name, source)))
  service = await createTestService({
    scripted: false,
    threads: 1,
    trainWorkers: 0,
    baseModels,
    toolFormats: ['told=hermes'],
  })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const CITY = { city: 'Rome' }
const ANSWER = { answer: 42 }
const parameters = { type: 'object', const: CITY }
const tools = [{ type: 'function', function: { name: 'look', parameters } }]
const schema = { type: 'object', const: ANSWER }
const { both, plain } = chatAnswers(() => service, {
  messages: [{ role: 'user', content: 'Well?' }],
  tools,
  parallel_tool_calls: false,
  response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } },
  temperature: 0,
  max_tokens: 300,
})
/** No white space where JSON may have it, and one first byte. */
const beginning = (byte: string) => ({
  logit_bias: { '9': -100, '10': -100, '13': -100, '32': -100, [String(byte.charCodeAt(0))]: 100 },
})

describe('tools and a response format', () => {
  it.each([
    ['hermes', '<', '{'],
    ['mistral', '[', '{'],
    ['coder', '[', '{'],
    ['pythonic', '[', '{'],
  ])('%s calls the tool, or ends with the object', async (model, call, object) => {
    const [called] = (await both({ model, ...beginning(call) })).choices
    expect(called).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    expect(called?.message.tool_calls.map(({ function: one }) => [one.name, JSON.parse(one.arguments)])).toEqual([
      ['look', CITY],
    ])
    const [ended] = (await both({ model, ...beginning(object) })).choices
    expect(ended).toMatchObject({ finish_reason: 'stop', message: { tool_calls: [] } })
    expect(JSON.parse(ended?.message.content ?? '')).toEqual(ANSWER)
  })

  it('is one of both where calls begin as objects do', async () => {
    const [choice] = (await both({ model: 'llama', ...beginning('{') })).choices
    const calls = choice?.message.tool_calls ?? []
    if (calls.length > 0) expect(JSON.parse(calls[0]?.function.arguments ?? '')).toEqual(CITY)
    else expect(JSON.parse(choice?.message.content ?? '')).toEqual(ANSWER)
  })

  it('a call comes where one is required', async () => {
    for (const tool_choice of ['required', { type: 'function', function: { name: 'look' } }]) {
      const [choice] = (await plain({ model: 'hermes', tool_choice, ...beginning('{') })).choices
      expect(choice?.message.tool_calls.map(({ function: one }) => JSON.parse(one.arguments))).toEqual([CITY])
    }
  })

  it('the object comes where no call may', async () => {
    const [choice] = (await plain({ model: 'hermes', tool_choice: 'none', ...beginning('<') })).choices
    expect(JSON.parse(choice?.message.content ?? '')).toEqual(ANSWER)
  })

  it('marks of a call inside the object are its text', async () => {
    const text = '<tool_call>{"name": "look", "arguments": {"city": "Rome"}}</tool_call>'
    const said = { type: 'json_schema', json_schema: { name: 'said', schema: { const: { said: text } } } }
    const [choice] = (await both({ model: 'hermes', response_format: said, ...beginning('{') })).choices
    expect(choice?.message.tool_calls).toEqual([])
    expect(JSON.parse(choice?.message.content ?? '')).toEqual({ said: text })
  })

  it('over responses and messages an answer is a call or the object, too', async () => {
    const response = await service.json<{ output: readonly { type: string }[] }>('/v1/responses', {
      json: {
        model: 'hermes',
        input: 'Well?',
        temperature: 0,
        max_output_tokens: 300,
        parallel_tool_calls: false,
        tools: [{ type: 'function', name: 'look', parameters }],
        text: { format: { type: 'json_schema', name: 'answer', schema } },
      },
    })
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    expectEither(
      JSON.stringify(response.body.output),
      response.body.output.some(({ type }) => type === 'function_call'),
    )
    const message = await service.json<{ content: readonly { type: string }[] }>('/v1/messages', {
      json: {
        model: 'hermes',
        messages: [{ role: 'user', content: 'Well?' }],
        temperature: 0,
        max_tokens: 300,
        tool_choice: { type: 'auto', disable_parallel_tool_use: true },
        tools: [{ name: 'look', input_schema: parameters }],
        output_config: { format: { type: 'json_schema', schema } },
      },
    })
    expect(message.status, JSON.stringify(message.body)).toBe(200)
    expectEither(
      JSON.stringify(message.body.content),
      message.body.content.some(({ type }) => type === 'tool_use'),
    )
  })
})

/** The texts of JSON in JSON have marks before their quotes. */
function expectEither(shownText: string, isCall: boolean): void {
  const plainText = shownText.replaceAll('\\', '').replaceAll(/\s|n(?=[{"])/g, '')
  expect(plainText).toContain(isCall ? '"city":"Rome"' : '"answer":42')
}

describe('forms of calls', () => {
  const write = (model: string, text: string) =>
    both({ model, tool_choice: 'auto', response_format: null, structured_outputs: { choice: [text] } })

  it.each([
    [
      'coder',
      'Yes.\n<tool_call>\n<function=look>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>',
      'Yes.\n',
    ],
    ['pythonic', '[look(city="Rome")]', null],
  ])('%s is read, whole and streamed', async (model, text, content) => {
    const [choice] = (await write(model, text)).choices
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content } })
    expect(choice?.message.tool_calls).toMatchObject([{ function: { name: 'look', arguments: '{"city": "Rome"}' } }])
  })

  it('a template without tools has them in words, and takes a result back', async () => {
    const written = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
    const [choice] = (await write('plain', written)).choices
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    const id = choice?.message.tool_calls[0]?.id
    for (const tool_choice of ['auto', 'required']) {
      const body = await plain({
        model: 'plain',
        tool_choice,
        messages: [
          { role: 'user', content: 'Well?' },
          { role: 'assistant', content: null, tool_calls: choice?.message.tool_calls },
          { role: 'tool', tool_call_id: id, content: 'clear' },
        ],
        ...beginning('{'),
        return_token_ids: true,
      })
      const { body: prompt } = await service.json<{ prompt: string }>('/detokenize', {
        json: { model: 'plain', tokens: body.prompt_token_ids },
      })
      expect(prompt.prompt).toContain('"name": "look"')
      // as it was sampled, whatever the template writes around it
      expect(prompt.prompt).toContain(`<|im_start|>assistant${written}`)
      expect(prompt.prompt).toContain('<|im_start|>user\n<tool_response>\nclear\n</tool_response><|im_end|>')
    }
  })

  it('the record of a base model names its form', async () => {
    const { body } = await service.json<{ data: readonly { name: string; tool_format: string | null }[] }>(
      '/v1/preview/base-models/details',
    )
    const forms = Object.fromEntries(body.data.map(({ name, tool_format }) => [name, tool_format]))
    expect(forms).toMatchObject({
      ...{ hermes: 'hermes', mistral: 'mistral', llama: 'llama3_json', coder: 'qwen3_coder', pythonic: 'pythonic' },
      ...{ plain: 'hermes', unread: null, told: 'hermes' },
    })
  })

  it('a form that the server was told is read where the template does not show it', async () => {
    const [choice] = (await write('told', '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'))
      .choices
    expect(choice?.message.tool_calls).toMatchObject([{ function: { name: 'look', arguments: '{"city": "Rome"}' } }])
    await expect(createTestService({ toolFormats: ['told=xml'] })).rejects.toThrow('must be one of mistral_args')
    const lines: string[] = []
    const logger = createLogger({ level: 'warn', destination: { write: (line) => void lines.push(line) } })
    await (await createTestService({ logger, toolFormats: ['trainyard/tiny-random=hermes', 'tolt=hermes'] })).dispose()
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { event: 'tool_format.no_such_base_model', base_models: ['tolt'] },
    ])
  })

  it('one that nobody reads is refused with the reason, never handed out as text', async () => {
    const { status, body } = await service.json<{ error: { message: string; param: string } }>('/v1/chat/completions', {
      json: { model: 'unread', messages: [{ role: 'user', content: 'Well?' }], tools },
    })
    expect(status).toBe(400)
    expect(body.error.message).toContain('writes calls in a form that is not read')
    expect(body.error.param).toBe('tools')
  })
})
