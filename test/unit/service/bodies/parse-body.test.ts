/**
 * Checking a body costs what reading it costs, also when every element is wrong.
 */
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { RequestValidationError } from '#contract/wire/errors.js'
import { parseBody as parseKind, parseWith } from '#service/bodies/parse-body.js'
import { fromPlainError, toPlainError } from '#service/bodies/thread-protocol.js'
import { bodyOf, ENDPOINTS } from '../../../support/service/with-plugins.js'

const CHAT = 'POST /v1/chat/completions'
const RESPONSES = 'POST /v1/responses'

/** Every JSON body there is. */
const BODY_NAMES = [
  ...Object.entries(ENDPOINTS).flatMap(([key, { body }]) => (typeof body === 'object' ? [key] : [])),
  'artifact manifest',
]

const parseBody = (name: string, chunks: Iterable<Uint8Array>) => parseKind(bodyOf(name), chunks)

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
    expect(() => parseBody(CHAT, [new TextEncoder().encode(text)])).toThrow(/nested values/)
    const value: unknown = JSON.parse(text)
    expect(() => parseWith(bodyOf(CHAT).schema, value, 'body')).toThrow(/validation error|too many wrong values/)
  })
})

/** Bodies whose every field may be left out, or is asked for together with others once they are read. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set([
  'POST /internal/worker/jobs/{job_id}/heartbeat',
  // whose library says what is wrong with a message, in the protocol's words
  'POST /mcp',
  'POST /tokenize',
  'POST /v1/preview/base-models',
  'POST /v1/preview/demo',
  'POST /files/{entity}/{project}/{run}/file_stream',
  RESPONSES,
  'POST /v1/responses/input_tokens',
  'POST /v1/preview/sessions',
  'POST /api/v1/client/config',
  'POST /api/v1/client/dynamic_config',
  'POST /api/v1/telemetry',
  'POST /api/v1/create_session',
  'POST /api/v1/sessions/{session_id}/finish',
  'PUT /api/v1/training_runs/{training_run_id}/checkpoints/{weights_kind}/{weights_name}/ttl',
  'POST /internal/worker/sessions/{session_id}/heartbeat',
  'POST /v1/preview/rollouts/{rollout_id}/finish',
  'POST /v1/evals/{eval_id}',
])

describe('every kind of body', () => {
  it.each(BODY_NAMES)('%s refuses what is no object with a problem', (name) => {
    for (const text of ['[]', 'null', '1', '"x"', '{}']) {
      const read = () => parseBody(name, [new TextEncoder().encode(text)])
      // what is recorded is read whole by the endpoint that it is passed on to
      if ((MAY_BE_EMPTY.has(name) || name.startsWith('POST /r/')) && text === '{}') continue
      expect(problemsOf(read).length, `${name} ${text}`).toBeGreaterThan(0)
    }
  })
})

describe('fields that no schema knows', () => {
  const read = (body: object, name = CHAT) =>
    parseBody(name, [new TextEncoder().encode(JSON.stringify(body))]).ignoredFields
  const messages = [{ role: 'user', content: 'x' }]

  it('are named inside too, once a place; what an answer is sent back with says nothing', () => {
    const echoed = {
      role: 'assistant',
      content: 'x',
      refusal: null,
      annotations: [],
      audio: null,
      function_call: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' }, extra: 1 }],
      reasoning: null,
      reasoning_content: 'r',
    }
    const own = { role: 'user', content: [{ type: 'text', text: 'x', cache_control: {} }, 'y', { text: 'z', mood: 1 }] }
    expect(
      read({ messages: [echoed, own], tools: [{ type: 'function', function: { name: 'f' }, strict: true }] }),
    ).toEqual(['messages[].content[].cache_control', 'messages[].content[].mood', 'messages[].tool_calls[].extra'])
    const call = { name: 'f', arguments: '{}' }
    expect(
      read({
        messages: [
          { ...echoed, tool_calls: [], function_call: call },
          { ...own, content: 'x', function_call: call, refusal: 'no' },
        ],
        stream_options: { include_usage: true, include_obfuscation: true },
        mood: 1,
      }),
    ).toEqual(['mood', 'stream_options.include_obfuscation', 'messages[].refusal'])
  })

  it.each([
    [CHAT, 'messages', 'content'],
    ['POST /tokenize', 'messages', 'content'],
    ['POST /apply-template', 'messages', 'content'],
    [RESPONSES, 'input', 'content'],
    [RESPONSES, 'input', 'output'],
  ] as const)('of %s are those of other kinds of parts, too: %s with %s', (name, list, content) => {
    const parts = [
      { type: 'text', text: 'x', image: 'data:,', image_url: null },
      { type: 'text', text: 'y', image: 'data:,', refusal: 'no' },
      { type: 'refusal', refusal: 'no' },
      'z',
    ]
    const isResult = content === 'output'
    const item = isResult
      ? { type: 'function_call_output', call_id: 'c', output: parts }
      : { role: 'user', content: parts }
    expect(read({ [list]: [item] }, name)).toEqual(
      ['image', 'refusal'].map((field) => `${list}[].${content}[].${field}`),
    )
  })

  const named = { type: 'function', function: { name: 'f' } }
  const tools = [named]
  it.each([
    [CHAT, { response_format: { type: 'json_object', schema: {} } }, []],
    [CHAT, { response_format: { type: 'json_object', json_schema: {} } }, ['response_format.json_schema']],
    [CHAT, { response_format: { type: 'text', json_schema: {}, x: null } }, ['response_format.json_schema']],
    [
      CHAT,
      { response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { x: 1 }, strict: true, mood: 1 } } },
      ['response_format.json_schema.mood'],
    ],
    [CHAT, { response_format: { type: 'structural_tag', structures: [], triggers: [] } }, []],
    [
      'POST /v1/completions',
      { prompt: 'a', response_format: { type: 'text', schema: {} } },
      ['response_format.schema'],
    ],
    [RESPONSES, { text: { format: { type: 'json_object', name: 'n' } } }, ['text.format.name']],
    [RESPONSES, { text: { format: { type: 'json_schema', name: 'n', schema: {}, strict: true } } }, []],
    [
      CHAT,
      { tools, tool_choice: 'required', response_format: { type: 'json_object', x: {} } },
      ['response_format', 'response_format.x'],
    ],
    [CHAT, { tools, tool_choice: 'required', response_format: { type: 'text' } }, []],
    [
      CHAT,
      { functions: [{ name: 'f' }], function_call: { name: 'f' }, response_format: { type: 'json_object' } },
      ['response_format'],
    ],
    [CHAT, { tools, tool_choice: 'auto', response_format: { type: 'json_object' } }, []],
    [CHAT, { tools, tool_choice: named, response_format: { type: 'json_object' } }, ['response_format']],
    [
      CHAT,
      {
        tools,
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools } },
        response_format: { type: 'json_object' },
      },
      ['response_format'],
    ],
    [
      RESPONSES,
      {
        tools: [{ type: 'function', name: 'f' }],
        tool_choice: 'required',
        text: { format: { type: 'json_object' } },
      },
      ['text.format'],
    ],
  ] as const)('of %s are those of other formats, too: %j', (name, fields, expected) => {
    expect(read({ ...(name === CHAT ? { messages } : {}), ...fields }, name)).toEqual(expected)
  })

  it('are named, null or not', () => {
    expect(read({ messages, temperature: 1, user: 'a' })).toEqual([])
    expect(read({ messages, truncation_side: null, constructor: 1, tools: [] })).toEqual([
      'truncation_side',
      'constructor',
    ])
  })

  it('are named up to twenty', () => {
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`x${i}`, i]))
    expect(read({ messages, ...many })).toEqual(Array.from({ length: 20 }, (_, i) => `x${i}`))
  })
})

describe('what a body that does not fit is told', () => {
  const refusalOf = (name: string, text: string): RequestValidationError => {
    try {
      parseBody(name, [new TextEncoder().encode(text)])
    } catch (error) {
      if (error instanceof RequestValidationError) return error
      throw error
    }
    throw new Error('the body was taken')
  }

  it('names the field, what was expected and what was given, also from a thread', () => {
    const name = '{"project":7,"base_model":[],"return_existing":"maybe"}'
    const expected =
      'project: input should be a valid string, got 7; name: field required; ' +
      'base_model: input should be a valid string, got an empty list; ' +
      'return_existing: input should be a valid boolean, unable to interpret input, got "maybe"'
    const refusal = refusalOf('POST /v1/preview/models', name)
    expect(refusal.sentence).toBe(expected)
    expect(fromPlainError(structuredClone(toPlainError(refusal)))).toMatchObject({
      sentence: expected,
      message: refusal.message,
      problems: refusal.problems,
    })
    expect(refusalOf('POST /v1/preview/models', '[]').sentence).toBe(
      'the body: input should be a valid dictionary, got an empty list',
    )
    const two = '{"project":"p","name":"m","base_model":"b","from_checkpoint":"m","from_adapter":'
    const files = '{"adapter_config":"file-a","adapter_model":"file-b"}'
    expect(refusalOf('POST /v1/preview/models', `${two}${files}}`).sentence).toBe(
      'from_adapter: give from_checkpoint or from_adapter, not both',
    )
    const steps = `{"steps":[${Array(300).fill('1').join(',')},1.5]}`
    expect(refusalOf('DELETE /v1/preview/models/{model_id}/checkpoints', steps).sentence).toMatch(
      /^steps\[300\]: .*, got 1\.5$/,
    )
  })

  it('says vLLM’s words on routes that are vLLM’s', () => {
    expect(refusalOf(CHAT, '{"messages":5}').message).toMatch(/^\d validation errors?: \{'type': 'list_type'/)
  })
})
