/** Tool calls read while they are written: every format, cut at every place, and what is no call. */
import { describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { answerFormatOf } from '#formats/answers/answer-format.js'
import { createToolCallStream, type StreamFormat } from '#formats/answers/tool-call-stream.js'
import { parseToolCalls } from '#formats/answers/tool-calls.js'

interface Read {
  readonly content: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
  readonly isMalformed: boolean
}

function read(format: StreamFormat, pieces: readonly string[]): Read {
  const stream = createToolCallStream(format, tools)
  const calls: { name: string; arguments: string }[] = []
  let content = ''
  for (const part of [...pieces.map((piece) => stream.push(piece)), stream.end()]) {
    content += part.content
    for (const { index, name, arguments: given } of part.calls) {
      if (name !== null) calls[index] = { name, arguments: '' }
      const call = calls[index]
      if (call === undefined) throw new Error('arguments came before their name')
      call.arguments += given
    }
  }
  return { content, calls, isMalformed: stream.isMalformed }
}

/** Names of tools. */
const tools = {
  isTool: (name: string): boolean => ['f', 'g', 'gé"', 'look'].includes(name),
  parametersOf: () => null,
}

const f = { name: 'f', arguments: '{"a": "x </tool_call> \\" {", "b": [1, {"c": 2}]}' }
const g = { name: 'gé"', arguments: '{}' }
const call = ({ name, arguments: given }: typeof f, key = 'arguments'): string =>
  `{"name": ${JSON.stringify(name)}, "${key}": ${given}}`

const CASES: readonly [StreamFormat, string, Pick<Read, 'content' | 'calls'>][] = [
  ['hermes', 'Just text with a < and a <tool', { content: 'Just text with a < and a <tool', calls: [] }],
  ['hermes', `Before\n<tool_call>\n${call(g)}\n</tool_call>`, { content: 'Before\n', calls: [g] }],
  [
    'hermes',
    ` \n<tool_call>${call(f)}</tool_call>\n<tool_call>${call(g)}</tool_call> after`,
    { content: '', calls: [f, g] },
  ],
  ['hermes', `<tool_call>${call(f)}`, { content: '', calls: [f] }],
  [
    'hermes',
    '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>',
    { content: '', calls: [{ name: 'f', arguments: '{"a": 1}' }] },
  ],
  ['hermes', '<tool_call>{"name": "f"}</tool_call>', { content: '', calls: [{ name: 'f', arguments: '{}' }] }],
  ['hermes', '  ', { content: '  ', calls: [] }],
  ['llama3_json', call(f, 'parameters'), { content: '', calls: [f] }],
  ['llama3_json', `${call(f, 'parameters')}; ${call(g, 'parameters')}`, { content: '', calls: [f, g] }],
  ['llama3_json', 'No call {"name": 1}', { content: 'No call {"name": 1}', calls: [] }],
  ['mistral', `Well[TOOL_CALLS][${call(f)}, ${call(g)}]`, { content: 'Well', calls: [f, g] }],
  ['list', `[${call(f, 'parameters')},${call(g, 'parameters')}]`, { content: '', calls: [f, g] }],
]

test.each(CASES)('%s: %s', (format, text, expected) => {
  const rng = createRng(1)
  const cuts = [[text], [...text], ...Array.from({ length: 30 }, () => randomPieces(text, rng.integer))]
  for (const pieces of cuts) {
    const { isMalformed, ...found } = read(format, pieces)
    expect(found, JSON.stringify(pieces)).toEqual(expected)
    expect(isMalformed).toBe(false)
  }
})

function randomPieces(text: string, integer: (bound: number) => number): string[] {
  const pieces: string[] = []
  for (let at = 0; at < text.length; ) {
    const length = 1 + integer(9)
    pieces.push(text.slice(at, at + length))
    at += length
  }
  return pieces
}

test.each<[StreamFormat, string, number]>([
  ['hermes', `<tool_call>${call(f)}</tool_call><tool_call>${call(f).slice(0, -4)}`, 1],
  ['list', `[${call(f, 'parameters')},${call(g, 'parameters').slice(0, -1)}`, 1],
  ['llama3_json', call(f, 'parameters').slice(0, -1), 0],
])('%s, cut off behind a name: %s', (format, text, whole) => {
  const stream = createToolCallStream(format, tools)
  const shown = [...text].flatMap((piece) => stream.push(piece).calls)
  expect(stream.end()).toEqual({ content: '', calls: [] })
  // a stream has shown the last one by then
  expect(shown.filter(({ name }) => name !== null)).toHaveLength(whole + 1)
  expect([stream.callCount, stream.isMalformed]).toEqual([whole, true])
})

test('a call is told once it names a tool and its arguments begin as an object does', () => {
  const told = (format: StreamFormat, text: string) => createToolCallStream(format, tools).push(text).calls
  expect(told('hermes', '<tool_call>{"name": "f", "arguments": {')).toEqual([])
  expect(told('hermes', '<tool_call>{"name": "f", "arguments": { "')).toEqual([
    { index: 0, name: 'f', arguments: '{ "' },
  ])
  expect(told('hermes', '<tool_call>{"name": "f", "arguments": {}')).toEqual([{ index: 0, name: 'f', arguments: '{}' }])
  expect(told('hermes', '<tool_call>{"name": "At", "arguments": {"a')).toEqual([])
  expect(told('hermes', '<tool_call>{"x": {"name": "f", "arguments": {"a')).toEqual([])
  expect(told('llama3_json', '{"name": "f", "age": 3')).toEqual([])
})

test('what is shown as a call stays one, however it goes on', () => {
  expect(read('hermes', ['<tool_call>{"name": "f", "arguments": {"city": Oslo}}</tool_call>'])).toEqual({
    content: '',
    calls: [{ name: 'f', arguments: '{"city": Oslo}' }],
    isMalformed: false,
  })
})

test('arguments are the model’s own text: numbers, spacing, order, escapes, keys that occur twice', () => {
  const given = '{ "b" :5.0,"a":1e2,  "id": 2512292042121000001, "\\u0061": "\\/", "b": [ ] }'
  for (const text of [
    `{"name": "f", "arguments": ${given}}`,
    `{"arguments": ${given}, "name": "f"}`,
    `{"arguments": {"an": "earlier one"}, "name": "f", "arguments" : ${given} }`,
    JSON.stringify({ name: 'f', arguments: given }),
  ]) {
    expect(read('hermes', [`<tool_call>${text}</tool_call>`]).calls, text).toEqual([{ name: 'f', arguments: given }])
  }
})

describe('what begins as a call and is none is the text that was written, cut at every place', () => {
  test.each<[StreamFormat, string]>([
    ['hermes', '<tool_call>{"nome": "f"}</tool_call>'],
    ['hermes', '<tool_call>{"nam'],
    ['hermes', '<tool_call>{"name": "f"'],
    ['hermes', '<tool_call>{"name": "f", "arguments": {city: Oslo}}</tool_call>'],
    ['hermes', '<tool_call>{"name": "f", "arguments": "{city: Oslo}"}</tool_call>'],
    ['hermes', '<tool_call>{"name": "f", "arguments": 3}</tool_call>'],
    ['hermes', '<tool_call>{"name": "At", "arguments": {"a": 1}}</tool_call> so'],
    ['llama3_json', '{"name": "Ada", "parameters": {}}'],
    ['hermes', `Well <tool_call>f()</tool_call> or <tool_call>${call(g)}</tool_call>`],
    ['hermes', ' \n<tool_call>I do not know </tool'],
    ['hermes', 'Well <tool_call>'],
    ['mistral', '[TOOL_CALLS]f'],
    ['mistral', '[TOOL_CALLS][{"nome": 1}] x'],
    ['llama3_json', ' {"answer": 42} or so'],
    ['llama3_json', '\n{"answer": 4'],
  ])('%s: %s', (format, text) => {
    const rng = createRng(2)
    for (const pieces of [[text], [...text], ...Array.from({ length: 30 }, () => randomPieces(text, rng.integer))]) {
      expect(read(format, pieces), JSON.stringify(pieces)).toEqual({ content: text, calls: [], isMalformed: true })
    }
  })
})

test('agrees with the parser of finished text', () => {
  for (const [format, text] of CASES.filter(([name]) => name === 'hermes')) {
    if (text.includes('</tool_call> \\"')) continue // inside a string the other one ends there
    const whole = parseToolCalls(text, () => 'id')
    const found = read(format, [text])
    expect(found.calls.map((each) => JSON.parse(each.arguments))).toEqual(
      whole.toolCalls.map((each) => JSON.parse(each.function.arguments)),
    )
  }
})

test('formats are told by what templates write', () => {
  const of = (source: string) => answerFormatOf(source).toolFormat
  expect(of('{% for tool in tools %}<tool_call>{% endfor %}')).toBe('hermes')
  expect(of("{{ '[TOOL_CALLS]' }}{{ tools }}")).toBe('mistral')
  expect(of('{% if tools %}{{ \'ipython\' }}"parameters": {% endif %}')).toBe('llama3_json')
  // told in words; a template that writes calls and shows no tools has no form that is known
  expect(of('{{ messages }}')).toBe('hermes')
  expect([of('{{ message.tool_calls }}'), of('{{ tools }}'), of('')]).toEqual([null, null, null])
  expect(answerFormatOf("{{ '<think>' }}").hasReasoning).toBe(true)
})

describe('how soon something is told', () => {
  /** Which push tells content or a call first. */
  const firstTold = (format: StreamFormat, pieces: readonly string[]): number => {
    const stream = createToolCallStream(format, tools)
    const told = pieces.findIndex((piece) => {
      const { content, calls } = stream.push(piece)
      return content !== '' || calls.length > 0
    })
    return told < 0 ? Number.POSITIVE_INFINITY : told
  }

  test.each<StreamFormat>(['hermes', 'llama3_json', 'mistral'])('%s: plain text within two tokens', (format) => {
    for (const text of ['The answer is 4.', '<b>4</b> it is', '[4] is it', '4']) {
      expect(firstTold(format, text.match(/\s?\w+|\s?\W/g) ?? []), text).toBeLessThan(2)
    }
  })

  test.each<[StreamFormat, string]>([
    ['hermes', '<tool_call>\n'],
    ['mistral', '[TOOL_CALLS]['],
    ['llama3_json', ''],
    ['list', '['],
  ])('%s: a call with the token that says what its arguments are', (format, mark) => {
    const before = [...mark, '{"name"', ': "', 'look']
    const pieces = [...before, '",', ' "arguments"', ':', ' {', '"a"', ': 1']
    expect(firstTold(format, pieces)).toBe(before.length + 4)
  })
})
