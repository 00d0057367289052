/** Properties of answers with calls: a stream, wherever its text is cut, says what the whole answer says, and nothing is lost. */
import { expect, test } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import type { ToolFormat } from '#formats/answers/answer-format.js'
import { AnswerText } from '#service/operations/generation/chat/answer-text.js'
import { randomObject } from '../../../../../support/model/random-json.js'

interface Shown {
  content: string
  readonly calls: { name: string; arguments: string }[]
}

const NAMES = ['f', 'look_up']

/** What a stream of these pieces shows, and what the whole answer says. */
function read(toolFormat: ToolFormat, pieces: readonly string[]): { readonly shown: Shown; readonly whole: Shown } {
  const mode = { kind: 'auto', isParallel: true, names: NAMES } as const
  const answer = new AnswerText(mode, { toolFormat, hasReasoning: false }, false)
  const shown: Shown = { content: '', calls: [] }
  for (const part of [...pieces.map((piece) => answer.push(piece)), answer.end()]) {
    shown.content += part.content
    for (const call of part.calls) {
      if (call.name !== null) shown.calls.push({ name: call.name, arguments: '' })
      expect(call.index).toBe(shown.calls.length - 1)
      shown.calls[call.index]!.arguments += call.arguments
    }
  }
  const { content, calls } = answer.whole()
  return { shown, whole: { content: content ?? '', calls: [...calls] } }
}

function cut(text: string, rng: Rng): string[] {
  const pieces: string[] = []
  for (let at = 0; at < text.length; ) {
    const length = 1 + rng.integer(8)
    pieces.push(text.slice(at, at + length))
    at += length
  }
  return pieces
}

const MARKS = {
  hermes: ['<tool_call>', '</tool_call>'],
  mistral: ['[TOOL_CALLS][', ']'],
  llama3_json: ['', ''],
} as const

/** Calls, half of them damaged, among texts; often cut off. */
function randomAnswer(format: keyof typeof MARKS, rng: Rng): string {
  const [open, close] = MARKS[format]
  const one = (options: readonly string[]): string => options[rng.integer(options.length)]!
  const pieces = Array.from({ length: 1 + rng.integer(4) }, () => {
    const name = one(['f', 'look_up', 'At', 'f"'])
    const given = randomObject(rng, { isSpaced: true })
    const key = one(['arguments', 'parameters', 'argument'])
    const [named, said] = [`"name": ${JSON.stringify(name)}`, `"${key}":${one(['', ' ', '\n'])}`]
    const call = one([
      `{${named}, ${said}${given}}`,
      `{${said}${given}, ${named}}`,
      `{${named}, ${said}${JSON.stringify(given)}}`,
      `{${named}, ${said}{city: Oslo}}`,
      `{${named}, ${said}${given.replace(/[":]/, '')}}`,
      `{${named}}`,
    ])
    return one([
      open + call + close,
      open + call + close,
      `${open}\n${call}\n${close}\n`,
      'Well, ',
      '<tool',
      ' {"a": 1} ',
      open,
      close,
    ])
  })
  const text = pieces.join('')
  return rng.integer(3) === 0 ? text.slice(0, rng.integer(text.length + 1)) : text
}

test.each<keyof typeof MARKS>(['hermes', 'llama3_json', 'mistral'])(
  '%s: whole and streamed are the same, however cut',
  (format) => {
    const rng = createRng(`answers ${format}`)
    for (let round = 0; round < 600; round++) {
      const text = randomAnswer(format, rng)
      const { shown, whole } = read(format, [text])
      expect(whole.calls, text).toEqual(shown.calls)
      // white space alone is no content beside a call
      const isBlank = shown.content.trim() === '' && shown.calls.length > 0
      expect(whole.content, text).toBe(isBlank ? '' : shown.content)
      for (let times = 0; times < 4; times++) {
        expect(read(format, cut(text, rng)), text).toEqual({ shown, whole })
      }
      for (const { name } of shown.calls) expect(NAMES).toContain(name)
      // what is no call at all is all there
      if (shown.calls.length === 0) expect(shown.content, text).toBe(text)
    }
  },
)

test('a call that the budget cuts off is text in a whole answer', () => {
  const mode = { kind: 'auto', isParallel: true, names: NAMES } as const
  const text = 'Well <tool_call>{"name": "f", "arguments": {"a": 1'
  const of = (more: string, isCut: boolean) => {
    const answer = new AnswerText(mode, { toolFormat: 'hermes', hasReasoning: false }, false)
    answer.push(text + more)
    answer.end()
    return answer.whole(isCut)
  }
  expect(of('', true)).toEqual({ reasoning: null, content: text, calls: [] })
  // the model itself ended it there: as the stream has it
  expect(of('', false)).toEqual({ reasoning: null, content: 'Well ', calls: [{ name: 'f', arguments: '{"a": 1' }] })
  expect(of('}}', true).calls).toEqual([{ name: 'f', arguments: '{"a": 1}' }])
})

test.each<keyof typeof MARKS>(['hermes', 'llama3_json', 'mistral'])(
  '%s: arguments are the text of the model',
  (format) => {
    const rng = createRng(`arguments ${format}`)
    const [open, close] = MARKS[format]
    for (let round = 0; round < 300; round++) {
      const given = randomObject(rng, { isSpaced: true })
      const call =
        rng.integer(2) === 0 ? `{"name": "f", "arguments": ${given}}` : `{"arguments": ${given}, "name": "f"}`
      const { shown, whole } = read(format, cut(open + call + close, rng))
      expect([shown.calls, whole.calls]).toEqual([[{ name: 'f', arguments: given }], [{ name: 'f', arguments: given }]])
    }
  },
)
