/** Forms of tool calls that are no JSON objects: read whole and cut at every place, told by their templates, and damaged. */
import { describe, expect, test } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import type { ToolFormat } from '#formats/answers/answer-format.js'
import { toolFormatOf } from '#formats/answers/calls/call-formats.js'
import { createToolCallStream } from '#formats/answers/tool-call-stream.js'

interface Read {
  readonly content: string
  readonly calls: readonly (readonly [name: string, given: string])[]
}

const SCHEMA = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    zip: { type: ['string', 'null'] },
    days: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
}
const tools = {
  isTool: (name: string): boolean => name === 'f' || name === 'get_weather',
  parametersOf: (name: string) => (name === 'get_weather' ? SCHEMA : null),
}

function read(format: ToolFormat, pieces: readonly string[]): Read & { readonly isMalformed: boolean } {
  const stream = createToolCallStream(format, tools)
  const calls: [string, string][] = []
  let content = ''
  for (const part of [...pieces.map((piece) => stream.push(piece)), stream.end()]) {
    content += part.content
    for (const { index, name, arguments: given } of part.calls) {
      if (name !== null) calls[index] = [name, '']
      const call = calls[index]
      if (call === undefined) throw new Error('arguments came before their name')
      call[1] += given
    }
  }
  // a call in JSON is shown before its end
  expect(stream.callCount + (stream.isOpen ? 1 : 0)).toBe(calls.length)
  return { content, calls, isMalformed: stream.isMalformed }
}

function cut(text: string, rng: Rng): string[] {
  const pieces: string[] = []
  for (let at = 0; at < text.length; at += pieces.at(-1)?.length ?? 1) {
    pieces.push(text.slice(at, at + 1 + rng.integer(7)))
  }
  return pieces
}

const rome: readonly [string, string] = ['get_weather', '{"city": "Rome", "days": 3}']
const CASES: readonly [ToolFormat, string, Read][] = [
  ['mistral_args', '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome", "days": 3}', { content: '', calls: [rome] }],
  [
    'mistral_args',
    'I look.[TOOL_CALLS]f[CALL_ID]abc123456[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{"city":"a [TOOL"}',
    {
      content: 'I look.',
      calls: [
        ['f', '{}'],
        ['get_weather', '{"city":"a [TOOL"}'],
      ],
    },
  ],
  [
    'qwen3_coder',
    'So:\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>',
    { content: 'So:\n', calls: [rome] },
  ],
  [
    'qwen3_coder',
    '<tool_call>\n<function=get_weather>\n<parameter=city>\n00123\nx < y\n</parameter>\n<parameter=zip>\nnull\n</parameter>\n<parameter=tags>\n["a", "b"]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>',
    {
      content: '',
      calls: [
        ['get_weather', '{"city": "00123\\nx < y", "zip": null, "tags": ["a", "b"]}'],
        ['f', '{}'],
      ],
    },
  ],
  [
    'glm',
    '\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>',
    { content: '', calls: [rome] },
  ],
  [
    'glm',
    '<tool_call>f<arg_key>x</arg_key><arg_value>not json</arg_value></tool_call>',
    { content: '', calls: [['f', '{"x": "not json"}']] },
  ],
  [
    'gemma4',
    '<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|><|tool_call>call:f{a:[1,{b:True}],c:<|"|>x{"}<|"|>,d:{}}<tool_call|>',
    { content: '', calls: [rome, ['f', '{"a": [1, {"b": true}], "c": "x{\\"}", "d": {}}']] },
  ],
  [
    'functiongemma',
    '<start_function_call>call:get_weather{city:<escape>Rome<escape>,days:3}<end_function_call><start_function_call>call:f{a:[1,true],c:<escape>x{"}, \\n<escape>}<end_function_call>',
    { content: '', calls: [rome, ['f', '{"a": [1, true], "c": "x{\\"}, \\\\n"}']] },
  ],
  [
    'smollm3',
    'So: <code>get_weather(city="Rome", days=3)\nf()</code>',
    {
      content: 'So: ',
      calls: [rome, ['f', '{}']],
    },
  ],
  [
    'smollm3',
    'So:\n<tool_call>{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}</tool_call>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>',
    { content: 'So:\n', calls: [rome, ['f', '{}']] },
  ],
  [
    'smollm3',
    '<code>f()</code><tool_call>{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}</tool_call>',
    { content: '', calls: [['f', '{}'], rome] },
  ],
  [
    'lfm2',
    'Yes <|tool_call_start|>[get_weather(city="Rome", days=3), f()]<|tool_call_end|>',
    { content: 'Yes ', calls: [rome, ['f', '{}']] },
  ],
  [
    'lfm2',
    "<|tool_call_start|>f(a='it\\'s', b=(1, -2.50,), c=None)<|tool_call_end|>",
    { content: '', calls: [['f', '{"a": "it\'s", "b": [1, -2.50], "c": null}']] },
  ],
  ['pythonic', '[get_weather(city="Rome", days=3)]', { content: '', calls: [rome] }],
  [
    'pythonic',
    ' [f(a={"k": [1e-07, .5]}), f()]',
    {
      content: '',
      calls: [
        ['f', '{"a": {"k": [1e-07, 0.5]}}'],
        ['f', '{}'],
      ],
    },
  ],
  ['pythonic', 'It is [f(1)] so', { content: 'It is [f(1)] so', calls: [] }],
  ['functionary', '<function=get_weather>{"city": "Rome", "days": 3}</function>', { content: '', calls: [rome] }],
  [
    'granite3',
    '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]',
    { content: '', calls: [rome] },
  ],
  [
    'apriel',
    'Hm\n<tool_calls>[{"name": "f", "arguments": {}}, {"name": "f", "arguments": {"a": 1}}]</tool_calls>',
    {
      content: 'Hm\n',
      calls: [
        ['f', '{}'],
        ['f', '{"a": 1}'],
      ],
    },
  ],
]

test.each(CASES)('%s: %s', (format, text, expected) => {
  const rng = createRng(3)
  for (const pieces of [[text], [...text], ...Array.from({ length: 20 }, () => cut(text, rng))]) {
    expect(read(format, pieces), JSON.stringify(pieces)).toEqual({ ...expected, isMalformed: false })
  }
})

describe('what begins as a call and is none is the text that was written, cut at every place', () => {
  test.each<[ToolFormat, string]>([
    ['mistral_args', '[TOOL_CALLS]f[ARGS]{"a": 1'],
    ['mistral_args', 'a [TOOL_CALLS]unknown[ARGS]{}'],
    ['qwen3_coder', '<tool_call>\n<function=f>\n<parameter=a>\n1\n'],
    ['qwen3_coder', '<tool_call>{"name": "f", "arguments": {}}</tool_call> so'],
    ['qwen3_coder', ' \n<tool_call>\n<function=f>\nwords\n</function>\n</tool_call>'],
    ['glm', '<tool_call>unknown\n</tool_call>'],
    ['glm', 'x<tool_call>f\n<arg_key>a</arg_key>\n</tool_call> y'],
    ['gemma4', '<|tool_call>call:f{a:}<tool_call|>'],
    ['gemma4', '<|tool_call>call:f{a:<|"|>b'],
    ['functiongemma', '<start_function_call>call:f{a:<escape>b'],
    ['functiongemma', '<start_function_call>call:unknown{}<end_function_call> so'],
    ['smollm3', 'Write <code>print("x")</code> and <code>f()</code>.'],
    ['smollm3', '<code>f(a='],
    ['smollm3', '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>'],
    ['lfm2', '<|tool_call_start|>[f(1)]<|tool_call_end|>'],
    ['lfm2', '<|tool_call_start|>[f(a=os.system("x"))]<|tool_call_end|>'],
    ['pythonic', '[f(a=1), g()'],
    ['functionary', '<function=f>{"a": }</function>'],
  ])('%s: %s', (format, text) => {
    const rng = createRng(4)
    for (const pieces of [[text], [...text], ...Array.from({ length: 20 }, () => cut(text, rng))]) {
      expect(read(format, pieces), JSON.stringify(pieces)).toEqual({ content: text, calls: [], isMalformed: true })
    }
  })
})

test.each([...new Set(CASES.map(([format]) => format))])(
  '%s: whole and streamed are the same, whatever comes',
  (format) => {
    const rng = createRng(`forms ${format}`)
    const parts = CASES.filter(([name]) => name === format).flatMap(([, text]) => {
      const middle = rng.integer(text.length)
      return [text, text.slice(0, middle), text.slice(middle), 'Well, ', '\n', ' ']
    })
    for (let round = 0; round < 300; round++) {
      const text = Array.from({ length: 1 + rng.integer(4) }, () => parts[rng.integer(parts.length)]).join('')
      const whole = read(format, [text])
      for (let times = 0; times < 3; times++) expect(read(format, cut(text, rng)), text).toEqual(whole)
      const ended = format === 'smollm3' && whole.isMalformed ? [] : whole.calls
      for (const [, given] of ended) expect(JSON.parse(given), text).toBeTypeOf('object')
    }
  },
)

test.each<[string, ToolFormat | null]>([
  ['{{ tools }}<tool_call>{"name": ', 'hermes'],
  ['<tool_call>\n<function=x>\n<parameter=y>', 'qwen3_coder'],
  ['<tool_call>{name}\n<arg_key>', 'glm'],
  ['[TOOL_CALLS]{{ name }}[ARGS]', 'mistral_args'],
  ['[TOOL_CALLS][', 'mistral'],
  ['<|tool_call>call:{{ name }}', 'gemma4'],
  ['<start_function_call>call:{{ name }}{', 'functiongemma'],
  ['{{ xml_tools }}<tool_call>{{ python_tools }}<code>', 'smollm3'],
  ['<|tool_call_start|>[', 'lfm2'],
  ['<|tool_call|>', 'granite3'],
  ['<function={{ name }}>{{ arguments }}', 'functionary'],
  ['[func_name1(params_name1=', 'pythonic'],
  ['ipython {"name": , "parameters": }', 'llama3_json'],
  ['<minimax:tool_call><invoke name=', null],
  ['{{ tools }}', null],
])('%s is of the form %s', (template, format) => {
  expect(toolFormatOf(template)).toBe(format)
})
