/**
 * Every refusal of chat completions: one case per rule, plain and streamed, each with its status, field and words. The valid requests
 * at the end differ in what is refused only, so that no case passes because the whole field is.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
})
afterAll(() => service.dispose())

const messages = [{ role: 'user', content: 'Answer.' }]
const tool = (name: string, parameters: object = {}) => ({ type: 'function', function: { name, parameters } })
const withText = (type: string) => ({
  type: 'object',
  properties: { x: { $ref: '#/$defs/T' } },
  $defs: { T: { type } },
})
const tools = [tool('look')]
const strict = (given: ReturnType<typeof tool>) => ({ ...given, function: { ...given.function, strict: true } })

interface ErrorBody {
  readonly error?: { readonly message: string; readonly code: number; readonly param: string | null }
  readonly detail?: unknown
}
interface Refusal {
  readonly param: string
  readonly words: string
  readonly status?: number
}

const ROWS: readonly (readonly [rule: string, body: object, refusal: Refusal])[] = [
  ['1.1 no messages', { messages: undefined }, { param: 'messages', words: 'missing' }],
  ['1.1 messages no list', { messages: 'x' }, { param: 'messages', words: 'list_type' }],
  ['1.1 empty', { messages: [] }, { param: 'messages', words: 'messages must hold at least one message.' }],
  [
    '1.1 part without type',
    { messages: [{ role: 'user', content: [{ foo: 1 }] }] },
    { param: 'messages[0].content[0]', words: "Missing 'type' field in multimodal part." },
  ],
  [
    '1.1 unknown part',
    { messages: [{ role: 'user', content: [{ type: 'hologram', hologram: 1 }] }] },
    { param: 'messages[0].content[0]', words: 'Unknown part type: hologram', status: 501 },
  ],
  [
    '1.1 part whose type is no text',
    { messages: [{ role: 'user', content: [{ type: { text: 1 } }] }] },
    { param: 'messages[0].content[0].type', words: 'messages[0].content[0].type must be a string.' },
  ],
  // of OpenAI's Responses, of vLLM, and of Hugging Face's templates
  ...['input_file', 'audio_embeds', 'image', 'audio', 'video'].flatMap((type) =>
    [{ type, [type]: { file_data: 'x' } }, { [type]: {} }].map((part): (typeof ROWS)[number] => [
      `1.1 media ${JSON.stringify(part)}`,
      { messages: [{ role: 'user', content: [part] }] },
      { param: 'messages[0].content[0]', words: `has media of type "${type}", but the model takes text only` },
    ]),
  ),
  [
    '1.1 media',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] },
    {
      param: 'messages[0].content[0]',
      words: 'messages[0].content[0] has media of type "image_url", but the model ta',
    },
  ],
  [
    '1.1 bad args',
    {
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'x', arguments: 5 } }] },
      ],
    },
    {
      param: 'messages[1].tool_calls[0].function.arguments',
      words: 'messages[1].tool_calls[0].function.arguments must be a string of JSON or an object, got 5.',
    },
  ],
  ['1.2 model', { model: 'nope' }, { param: 'model', words: 'The model `nope` does not exist.', status: 404 }],
  [
    '1.2 priority',
    { priority: 3 },
    { param: 'priority', words: 'Got priority 3 but Priority scheduling is not enabled.' },
  ],
  [
    '1.2 cache_salt',
    { cache_salt: '' },
    { param: 'cache_salt', words: "Parameter 'cache_salt' must be a non-empty string if provided." },
  ],
  ['1.2 cache_salt no string', { cache_salt: 5 }, { param: 'cache_salt', words: 'string_type' }],
  ['1.2 documents', { documents: 'x' }, { param: 'documents', words: 'list_type' }],
  [
    '1.3 both',
    { continue_final_message: true, add_generation_prompt: true },
    {
      param: 'continue_final_message',
      words: 'Cannot set both `continue_final_message` and `add_generation_prompt` t',
    },
  ],
  [
    '1.3 chat_template',
    { chat_template: 'x' },
    { param: 'chat_template', words: 'Chat template is passed with request, but --trust-request-chat-templat' },
  ],
  [
    '1.3 kwargs chat_template',
    { chat_template_kwargs: { chat_template: 'x' } },
    { param: 'chat_template', words: 'Chat template is passed with request, but --trust-request-chat-templat' },
  ],
  ['1.3 effort', { reasoning_effort: 'lots' }, { param: 'reasoning_effort', words: 'literal_error' }],
  ['1.3 truncate -2', { truncate_prompt_tokens: -2 }, { param: 'truncate_prompt_tokens', words: 'greater_than_equal' }],
  [
    '1.3 truncate too many',
    { truncate_prompt_tokens: 100000 },
    {
      param: 'truncate_prompt_tokens',
      words: 'truncate_prompt_tokens=100000 cannot be greater than max_model_len - m',
    },
  ],
  [
    '1.3 truncate 0',
    { truncate_prompt_tokens: 0 },
    { param: 'truncate_prompt_tokens', words: 'truncate_prompt_tokens must be -1 or at least 1, got 0.' },
  ],
  ['1.4 max 0', { max_tokens: 0 }, { param: 'max_tokens', words: 'max_tokens must be at least 1, got 0.' }],
  [
    '1.4 max completion -1',
    { max_completion_tokens: -1 },
    { param: 'max_completion_tokens', words: 'max_tokens must be at least 1, got -1.' },
  ],
  ['1.4 max 5.5', { max_tokens: 5.5 }, { param: 'max_tokens', words: 'int_from_float' }],
  [
    '1.4 min -1',
    { min_tokens: -1 },
    { param: 'min_tokens', words: 'min_tokens must be greater than or equal to 0, got -1.' },
  ],
  [
    '1.4 min > max',
    { min_tokens: 9, max_tokens: 5 },
    { param: 'min_tokens', words: 'min_tokens must be less than or equal to max_tokens=5, got 9.' },
  ],
  ['1.4 stop empty', { stop: [''] }, { param: 'stop', words: 'stop cannot contain an empty string.' }],
  [
    '1.4 stop id',
    { stop_token_ids: [10000000] },
    { param: 'stop_token_ids', words: 'token_id(s) [10000000] in stop_token_ids contain out-of-vocab token id' },
  ],
  [
    '1.4 repetition neg',
    { repetition_detection: { max_pattern_size: -1, min_pattern_size: 0, min_count: 2 } },
    { param: 'repetition_detection', words: 'max_pattern_size, min_pattern_size must be >=0, with min_pattern_size ' },
  ],
  [
    '1.4 repetition count',
    { repetition_detection: { max_pattern_size: 3, min_pattern_size: 1, min_count: 1 } },
    { param: 'repetition_detection', words: 'min_count must be >= 2 to detect repetitive patterns in engine output.' },
  ],
  [
    '1.4 overflow',
    { messages: [{ role: 'user', content: 'a b c d '.repeat(20000) }] },
    { param: 'input_tokens', words: 'maximum context length is 2048 tokens' },
  ],
  [
    '1.4 max > L',
    { max_tokens: 10000000 },
    { param: 'max_tokens', words: 'max_tokens=10000000 cannot be greater than max_model_len=2048.' },
  ],
  [
    '1.5 temperature',
    { temperature: -1 },
    { param: 'temperature', words: 'temperature must be non-negative, got -1.' },
  ],
  ['1.5 top_p', { top_p: 0 }, { param: 'top_p', words: 'top_p must be in (0, 1], got 0.' }],
  ['1.5 top_k', { top_k: -2 }, { param: 'top_k', words: 'top_k must be 0 (disable), or at least 1, got -2.' }],
  ['1.5 top_k float', { top_k: 1.5 }, { param: 'top_k', words: 'int_from_float' }],
  ['1.5 min_p', { min_p: 2 }, { param: 'min_p', words: 'min_p must be in [0, 1], got 2.' }],
  [
    '1.5 presence',
    { presence_penalty: 3 },
    { param: 'presence_penalty', words: 'presence_penalty must be in [-2, 2], got 3.' },
  ],
  [
    '1.5 frequency',
    { frequency_penalty: -3 },
    { param: 'frequency_penalty', words: 'frequency_penalty must be in [-2, 2], got -3.' },
  ],
  [
    '1.5 repetition',
    { repetition_penalty: 0 },
    { param: 'repetition_penalty', words: 'repetition_penalty must be greater than zero, got 0.' },
  ],
  ['1.5 seed', { seed: '99999999999999999999' }, { param: 'seed', words: 'less_than_equal' }],
  ['1.5 n 0', { n: 0 }, { param: 'n', words: 'n must be at least 1, got 0.' }],
  ['1.5 greedy n', { n: 2, temperature: 0 }, { param: 'n', words: 'n must be 1 when using greedy sampling, got 2.' }],
  [
    '1.5 bias key',
    { logit_bias: { x: 1, y: 2 } },
    { param: 'logit_bias', words: 'logit_bias contains key(s) that cannot be converted to integer token I' },
  ],
  ['1.5 bias value', { logit_bias: { '5': 'many' } }, { param: 'logit_bias.5', words: 'float_parsing' }],
  [
    '1.5 bias oov',
    { logit_bias: { '10000000': 1 } },
    { param: 'logit_bias', words: 'token_id(s) [10000000] in logit_bias contain out-of-vocab token ids. V' },
  ],
  [
    '1.5 allowed []',
    { allowed_token_ids: [] },
    { param: 'allowed_token_ids', words: 'allowed_token_ids is not None and empty!' },
  ],
  [
    '1.5 allowed oov',
    { allowed_token_ids: [10000000] },
    { param: 'allowed_token_ids', words: 'allowed_token_ids contains out-of-vocab token id!' },
  ],
  [
    '1.5 allowed neg',
    { allowed_token_ids: [-1] },
    { param: 'allowed_token_ids', words: 'allowed_token_ids contains out-of-vocab token id!' },
  ],
  [
    '1.5 bad words',
    { bad_words: [''] },
    { param: 'bad_words', words: "bad_words cannot contain an empty string. Got bad_words=['']" },
  ],
  [
    '1.6 top -2',
    { logprobs: true, top_logprobs: -2 },
    { param: 'top_logprobs', words: '`top_logprobs` must be a positive value or -1.' },
  ],
  [
    '1.6 top without',
    { logprobs: false, top_logprobs: 2 },
    { param: 'top_logprobs', words: 'when using `top_logprobs`, `logprobs` must be set to true.' },
  ],
  [
    '1.6 top 21',
    { logprobs: true, top_logprobs: 21 },
    { param: 'top_logprobs', words: 'Requested sample logprobs of 21, which is greater than max allowed: 20' },
  ],
  [
    '1.6 prompt -2',
    { prompt_logprobs: -2 },
    { param: 'prompt_logprobs', words: '`prompt_logprobs` must be a positive value or -1.' },
  ],
  [
    '1.8 choice no tools',
    { tool_choice: 'auto' },
    { param: 'tool_choice', words: 'When using `tool_choice`, `tools` must be set.' },
  ],
  [
    '1.8 choice no tools req',
    { tool_choice: 'required' },
    { param: 'tool_choice', words: 'When using `tool_choice`, `tools` must be set.' },
  ],
  [
    '1.8 choice no tools named',
    { tool_choice: { type: 'function', function: { name: 'look' } } },
    { param: 'tool_choice', words: 'When using `tool_choice`, `tools` must be set.' },
  ],
  [
    '1.8 other',
    { tools, tool_choice: 'sometimes' },
    { param: 'tool_choice', words: 'Invalid value for `tool_choice`: sometimes! Only named tools, "none", ' },
  ],
  [
    '1.8 tools [] required',
    { tools: [], tool_choice: 'required' },
    { param: 'tool_choice', words: 'When using `tool_choice`, `tools` must be set.' },
  ],
  [
    '1.8 defs',
    { tools: [tool('a', withText('string')), tool('b', withText('integer'))], tool_choice: 'required' },
    { param: 'tools', words: "Tool definition 'T' has multiple schemas, which is not supported." },
  ],
  [
    '1.8 named + so',
    { tools, tool_choice: { type: 'function', function: { name: 'look' } }, structured_outputs: { regex: 'a' } },
    { param: 'structured_outputs', words: 'You can only either use constraints for structured outputs or tools, n' },
  ],
  [
    '1.8 required + so',
    { tools, tool_choice: 'required', structured_outputs: { regex: 'a' } },
    { param: 'structured_outputs', words: 'You can only either use constraints for structured outputs or tools, n' },
  ],
  [
    '7 schema multipleOf',
    {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', strict: true, schema: { type: 'number', multipleOf: 2 } },
      },
    },
    { param: 'response_format', words: 'JSON schema at #/multipleOf uses a keyword that answers cannot be held' },
  ],
  [
    '7 named tool schema',
    {
      tools: [strict(tool('a', { type: 'object', properties: { x: { uniqueItems: true } } }))],
      tool_choice: { type: 'function', function: { name: 'a' } },
    },
    { param: 'tools', words: 'JSON schema at #/properties/x/uniqueItems uses a keyword that answers ' },
  ],
  [
    '7 regex',
    { structured_outputs: { regex: '(a' } },
    { param: 'structured_outputs', words: 'does not close a group' },
  ],
  [
    '7 ag',
    { structured_outputs: { grammar: 'root ::= (' } },
    { param: 'structured_outputs', words: 'cannot be compiled' },
  ],
  [
    '7 lark',
    { structured_outputs: { grammar: 'start: A\n%declare A' } },
    {
      param: 'structured_outputs',
      words: 'Failed to convert the grammar from Lark to EBNF: line 2: %declare is not supported',
    },
  ],
  [
    '7 unknown kind',
    { structured_outputs: { nope: 'a' } },
    { param: 'structured_outputs', words: 'You must use one kind of structured outputs constraint but none are sp' },
  ],
  [
    '7 two dialects',
    { guided_regex: 'a', structured_outputs: { regex: 'a' } },
    { param: 'structured_outputs', words: 'multiple are specified' },
  ],
  [
    '7 two of one',
    { guided_json: {}, response_format: { type: 'json_object' } },
    { param: 'structured_outputs', words: 'multiple are specified' },
  ],
  ['7 guided regex', { guided_regex: '(a' }, { param: 'guided_regex', words: 'does not close a group' }],
  ['7 format', { format: 'yaml' }, { param: 'format', words: 'must be "json" or a JSON schema' }],
  ['7 guided choice', { guided_choice: [] }, { param: 'guided_choice', words: 'at least one choice' }],
  ['7 grammar', { grammar: ' ' }, { param: 'grammar', words: 'must not be empty' }],
  ['7 structured no object', { structured_outputs: 'x' }, { param: 'structured_outputs', words: 'dict_type' }],
]

const STREAMED: typeof ROWS = [
  ['1.6 prompt 21', { prompt_logprobs: 21 }, { param: 'prompt_logprobs', words: 'are not available when' }],
  ['1.6 prompt 1', { prompt_logprobs: 1 }, { param: 'prompt_logprobs', words: 'are not available when' }],
]
const PLAIN: typeof ROWS = [
  ['6 stream str', { stream: 'maybe' }, { param: 'stream', words: 'bool_parsing' }],
  ['1.6 prompt 21', { prompt_logprobs: 21 }, { param: 'prompt_logprobs', words: 'greater than max allowed: 20' }],
  ['1.6 prompt -1', { prompt_logprobs: -1 }, { param: 'prompt_logprobs', words: 'Requested prompt logprobs of -1' }],
  [
    '1.7 options',
    { stream_options: { include_usage: true } },
    { param: 'stream_options', words: 'can only be defined when' },
  ],
]

async function expectRefusal(body: object, { param, words, status = 400 }: Refusal): Promise<void> {
  const answer = await service.fetch('/v1/chat/completions', { json: { messages, max_tokens: 4, seed: 1, ...body } })
  expect(answer.headers.get('content-type')).toContain('application/json')
  const { error, detail } = (await answer.json()) as ErrorBody
  expect({ status: answer.status, code: error?.code, param: error?.param, message: error?.message }).toEqual({
    status,
    code: status,
    param,
    message: expect.stringContaining(words),
  })
  // FastAPI's clients read the other key
  if (status === 400) expect(detail).toBeDefined()
}

describe('what is refused', () => {
  it.each(ROWS)('%s', async (_, body, refusal) => {
    await expectRefusal(body, refusal)
    await expectRefusal({ ...body, stream: true }, refusal)
  })

  it.each(PLAIN)('%s, plain', (_, body, refusal) => expectRefusal(body, refusal))
  it.each(STREAMED)('%s, streamed', (_, body, refusal) => expectRefusal({ ...body, stream: true }, refusal))
})

describe('what is taken', () => {
  it.each<[string, object]>([
    [
      '1.1 parts',
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, 'b', { type: 'refusal', refusal: 'c' }] }] },
    ],
    [
      '1.1 other roles',
      {
        messages: [
          { role: 'developer', content: 'a' },
          { role: 'narrator', content: 'b' },
        ],
      },
    ],
    [
      '1.2 unused',
      { user: 'me', priority: 0, cache_salt: 'pepper', documents: [{ text: 'a' }], engine_xargs: { a: 1 } },
    ],
    [
      '1.3 continuing',
      { messages: [...messages, { role: 'assistant', content: 'Well' }], continue_final_message: true },
    ],
    [
      '1.3 kwargs',
      { chat_template_kwargs: { enable_thinking: false }, reasoning_effort: 'low', include_reasoning: false },
    ],
    ['1.3 truncation', { truncate_prompt_tokens: 3 }],
    ['1.4 lengths', { max_completion_tokens: 3, max_tokens: 9, min_tokens: 1, stop: ['z', 'y'], stop_token_ids: [4] }],
    ['1.4 repetition', { repetition_detection: { max_pattern_size: 3, min_pattern_size: 1, min_count: 2 } }],
    ['1.5 bounds', { temperature: 3, top_p: 1, top_k: -1, min_p: 1, presence_penalty: -2, frequency_penalty: 2 }],
    ['1.5 the rest', { n: null, seed: '5', logit_bias: { '7': 1000 }, allowed_token_ids: [60, 61], bad_words: ['z'] }],
    ['1.6 log-probabilities', { logprobs: 'true', top_logprobs: 20, prompt_logprobs: 20, return_token_ids: true }],
    ['1.7 empty options', { stream_options: {}, stream: null }],
    ['1.8 tools', { tools, tool_choice: 'none', parallel_tool_calls: false }],
    ['1.8 a named tool', { tools, tool_choice: { type: 'function', function: { name: 'look' } } }],
    ['1.8 a constraint beside tools', { tools, tool_choice: 'none', structured_outputs: { regex: '[ab]{2}' } }],
    ['1.8 no tools', { tools: [] }],
    ['7 a schema', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'null' } } } }],
    ['7 no format', { response_format: { type: 'text' }, structured_outputs: null }],
    ['7 choices', { structured_outputs: { choice: ['a', 'b'], disable_fallback: true } }],
  ])('%s', async (_, body) => {
    const answer = await service.fetch('/v1/chat/completions', { json: { messages, max_tokens: 4, seed: 1, ...body } })
    expect(answer.status, await answer.clone().text()).toBe(200)
  })
})
