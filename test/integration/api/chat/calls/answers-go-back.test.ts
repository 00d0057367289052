/**
 * Whatever a model wrote comes back to it as it was sampled: random texts around the marks of calls, in every form of them, whole and streamed.
 * The next prompt begins with the first one and the ids of its answer, so that the conversation trains as one sequence.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { joinChunks } from '#sdk/rl/join-chunks.js'
import { chatAnswers } from '../../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../../support/service/create-test-service.js'

let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService({
    scripted: false,
    threads: 1,
    trustsRequestChatTemplate: true,
    baseModels: ['trainyard/tiny-random', 'trainyard/spark'],
  })
  modelId = await service.createModel('m')
})
afterAll(() => service.dispose())

const PAIRS = '{% for k, v in c.function.arguments.items() %}'
/** What a template shows of a form, and how it writes a call. */
const FORMS = {
  hermes: ['<tool_call>', '<tool_call>\n{{ c.function | tojson }}\n</tool_call>'],
  llama3_json: [
    '<|python_tag|> parameters',
    '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }} }',
  ],
  mistral: ['[TOOL_CALLS]', '[TOOL_CALLS][{{ c.function | tojson }}]'],
  mistral_args: ['[TOOL_CALLS] [ARGS]', '[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}'],
  granite3: ['<|tool_call|>', '<|tool_call|>[{{ c.function | tojson }}]'],
  functionary: ['<function=', '<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>'],
  qwen3_coder: [
    '<tool_call> <function= <parameter=',
    `<tool_call>\n<function={{ c.function.name }}>\n${PAIRS}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>`,
  ],
  glm: [
    '<tool_call> <arg_key>',
    `<tool_call>{{ c.function.name }}\n${PAIRS}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>`,
  ],
} as const

const templateOf = ([shows, call]: readonly [string, string]): string =>
  `{# ${shows} #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}` +
  `{% for c in m.tool_calls or [] %}${call}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`

const PIECES = [
  ...[
    '<tool_call>',
    '</tool_call>',
    '[TOOL_CALLS]',
    '[ARGS]',
    '<|tool_call|>',
    '<function=',
    '</function>',
    '<parameter=a>',
    '</parameter>',
  ],
  ...[
    '{"name": "f", "arguments": {"a": 1}}',
    '{"name": "f", "arguments": {"a": 1,}}',
    '{"name": "f", "parameters": {"a":',
    '[{"name": "f"}]',
  ],
  ...[
    'f',
    '{"a": "b\nc"}',
    '{}',
    '}',
    '"',
    '\n',
    ' ',
    'so',
    'é',
    '<arg_key>a</arg_key>',
    '<arg_value>1</arg_value>',
    'f(a=1)',
    '<think>',
    '</think>',
  ],
]
const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: {} } } } }]
const user = { role: 'user', content: 'q' }
const { plain, streamed } = chatAnswers(() => service, {
  tools,
  max_tokens: 300,
  return_token_ids: true,
  logprobs: true,
})
const junkOf = (rng: Rng): string =>
  Array.from({ length: 1 + rng.integer(7) }, () => PIECES[rng.integer(PIECES.length)]).join('')

type Choice = ChatResponse['choices'][number]
const idsOf = ({ prompt_token_ids: prompt, choices }: ChatResponse): number[] => [
  ...(prompt ?? []),
  ...(choices[0]?.token_ids ?? []),
]

/** A conversation of two answers, the second behind what the client has of the first. */
async function twoTurns(body: object, text: string, isStreamed: boolean, sampling: object = {}) {
  const first = { ...body, messages: [user], ...sampling, structured_outputs: { choice: [text] } }
  const answer = isStreamed ? joinChunks(await streamed(first)) : await plain(first)
  const message = JSON.parse(JSON.stringify(answer.choices[0]?.message)) as Choice['message']
  const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'done' }))
  const behind = results.length > 0 ? results : [{ role: 'user', content: 'go on' }]
  const next = await plain({ ...body, messages: [user, message, ...behind], max_tokens: 2, ignore_eos: true })
  const before = idsOf(answer)
  expect(next.prompt_token_ids?.slice(0, before.length), JSON.stringify([text, isStreamed])).toEqual(before)
  const items = [user, { ...answer.choices[0], prompt_token_ids: answer.prompt_token_ids }, ...behind]
  const trained = (answer.choices[0]?.token_ids?.length ?? 0) + 2
  return { items: [...items, { ...next.choices[0], prompt_token_ids: next.prompt_token_ids }], trained }
}

describe('an answer goes back in', () => {
  const turns: Awaited<ReturnType<typeof twoTurns>>[] = []

  it.each(Object.keys(FORMS) as (keyof typeof FORMS)[])('in the form of %s', async (form) => {
    const rng = createRng(`junk of ${form}`)
    const body = { model: 'm', chat_template: templateOf(FORMS[form]) }
    for (let i = 0; i < 4; i++) turns.push(await twoTurns(body, junkOf(rng), i % 2 === 1))
  })

  it('and trains on just the tokens that were sampled, each conversation as one sequence', async () => {
    expect(turns.length).toBe(4 * Object.keys(FORMS).length)
    const trajectories = turns.map(({ items }, i) => ({ messages_and_choices: items, tools, reward: i }))
    const json = { model_id: modelId, trajectory_groups: [{ trajectories }] }
    const { status, body } = await service.json<{ left_out: object[]; trained_tokens: number }>(
      '/v1/preview/training-jobs?plan=true',
      { json },
    )
    expect(status, JSON.stringify(body)).toBe(200)
    expect(body.left_out).toEqual([])
    expect(body.trained_tokens).toBe(turns.reduce((sum, { trained }) => sum + trained, 0))
  })

  it('however its text was cut into tokens, and back from a client that writes arguments anew', async () => {
    const text = 'Let me look.\n<tool_call>\n{"name": "f", "arguments": {"a":  1.0}}\n</tool_call> and then'
    for (const isStreamed of [false, true]) {
      // at this temperature words come in pieces
      const sampling = { temperature: 2, seed: 5, max_tokens: 300 }
      await twoTurns({ model: 'trainyard/spark' }, text, isStreamed, sampling)
    }
  })

  it('with its tokens to its own owner only', async () => {
    const { key } = await service.createKey({ scope: 'read', entity: 'stranger' })
    const body = { model: 'trainyard/spark', tools, return_token_ids: true }
    const first = {
      ...body,
      messages: [user],
      temperature: 2,
      seed: 7,
      max_tokens: 100,
      structured_outputs: { choice: ['a strange answer of many words indeed'] },
    }
    const answer = await plain(first)
    const messages = [user, answer.choices[0]?.message, user]
    const prompts = await Promise.all(
      [service.apiKey, key].map(async (each) => {
        const json = { ...body, messages, max_tokens: 1 }
        const { body: next } = await service.json<ChatResponse>('/v1/chat/completions', {
          json,
          headers: { authorization: `Bearer ${each}` },
        })
        return next.prompt_token_ids ?? []
      }),
    )
    const before = idsOf(answer)
    expect(prompts[0]?.slice(0, before.length)).toEqual(before)
    expect(prompts[1]?.slice(0, before.length)).not.toEqual(before)
  })
})
