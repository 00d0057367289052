/**
 * Strict tools under `tool_choice: "auto"`: every form of calls that a grammar can hold, written by a hand that insists on its own text
 * and takes another byte only where its own may not come.
 */
import { describe, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { CALL_FORMATS, TOOL_FORMATS, type ToolFormat } from '#formats/answers/calls/call-formats.js'
import type { TokenMask } from '#inference/engine/sampling/token-mask.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { AnswerText, type ToolMode } from '#service/operations/generation/chat/answer-text.js'
import { type HeldCalls, heldCalls, isStrictIgnored } from '#service/operations/generation/chat/held-calls.js'
import { toToolUse } from '#service/operations/generation/chat/tool-choice.js'
import { byteTable } from '../../support/schemas/acceptor.js'

const STOP = 256
const CITY = { type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } }, required: ['city'] }
const LAX = { type: 'object', properties: { days: { type: 'integer', multipleOf: 7 } }, required: ['days'] }
const tool = (name: string, parameters: object, isStrict = true) => ({
  type: 'function',
  function: { name, parameters, ...(isStrict ? { strict: true } : {}) },
})
const TOOLS = [tool('look', CITY), tool('look_up', CITY), tool('plan', LAX, false)]

const request = (more: object = {}): ChatRequest =>
  ({ messages: [], tools: TOOLS, tool_choice: 'auto', ...more }) as unknown as ChatRequest

function held(toolFormat: ToolFormat | null, more: object = {}, hasReasoning = false): HeldCalls | null {
  const given = request(more)
  const { mode, grammar } = toToolUse(given)
  return heldCalls(given, { grammar, mode, format: { toolFormat, hasReasoning } })
}

/** Bytes that the hand tries where its own may not come, nor an end: it goes on with its text behind what it was made to write. */
const OTHERS = [...Array.from({ length: 95 }, (_, i) => 0x7e - i), 0x0a]

/** @returns what was written, and how many of its bytes came without a mask */
function write(mask: TokenMask, wanted: string): { readonly text: string; readonly free: number } {
  const written: number[] = []
  let free = 0
  const rest = [...Buffer.from(wanted)]
  for (let step = 0; step < 600; step++) {
    const words = mask.next()
    const may = (id: number): boolean => words === null || (((words[id >>> 5] ?? 0) >>> (id & 31)) & 1) === 1
    if (words === null) free++
    const own = rest[0]
    const isOwn = own !== undefined && may(own)
    if (!isOwn && may(STOP)) return { text: Buffer.from(written).toString(), free }
    const next = isOwn ? rest.shift() : OTHERS.find(may)
    if (next === undefined) throw new Error(`nothing may come behind ${Buffer.from(written)}`)
    written.push(next)
    mask.accept(next)
  }
  throw new Error(`no end behind ${Buffer.from(written)}`)
}

async function withMask<T>(grammar: GrammarSpec, use: (open: () => TokenMask) => T, table = byteTable()): Promise<T> {
  const compiled = await compileGrammar(grammar, table, { clock: systemClock })
  try {
    return use(() => compiled.open())
  } finally {
    await compiled.dispose()
  }
}

/** Whole, and cut at random places: both say the same. */
function read(text: string, mode: ToolMode, toolFormat: ToolFormat, hasReasoning = false) {
  const whole = new AnswerText(mode, { toolFormat, hasReasoning }, false)
  whole.push(text)
  whole.end()
  const rng = createRng(BigInt(text.length))
  const streamed = new AnswerText(mode, { toolFormat, hasReasoning }, false)
  for (let at = 0; at < text.length; ) {
    const end = at + 1 + rng.integer(5)
    streamed.push(text.slice(at, end))
    at = end
  }
  streamed.end()
  expect(streamed.whole()).toEqual(whole.whole())
  return whole.whole()
}

const HELD = TOOL_FORMATS.filter((name) => CALL_FORMATS[name].frame !== null)
const frameOf = (name: ToolFormat) => {
  const { frame } = CALL_FORMATS[name]
  if (frame === null) throw new Error(`${name} has no frame`)
  return frame
}
const calls = (name: ToolFormat, ...made: readonly (readonly [name: string, given: string])[]): string => {
  const { open, close, before, after, separator } = frameOf(name)
  return open + made.map(([called, given]) => before(called) + given + after).join(separator ?? open) + close
}
const argumentsOf = (texts: readonly { readonly arguments: string }[]): unknown[] =>
  texts.map((call) => JSON.parse(call.arguments))

describe.each(HELD)('%s', (form) => {
  const isAtBeginning = frameOf(form).isTriggerAtBeginning === true
  const before = isAtBeginning ? '' : 'I look. <5 [and] {} '

  test('what is right is written as it is, and text costs no mask', async () => {
    const wish = held(form)
    if (wish === null) throw new Error('nothing is held')
    await withMask(wish.grammar, (open) => {
      const plain = 'Three dogs, "no" call: (1, 2). É'
      expect(write(open(), plain)).toEqual({ text: plain, free: Buffer.byteLength(plain) + 1 })
      const right = before + calls(form, ['look', '{"city": "Rome"}'])
      const { text } = write(open(), right)
      expect(text).toBe(right)
      const { content, calls: found } = read(text, wish.mode, form)
      expect(content).toBe(isAtBeginning ? null : before)
      expect(found).toEqual([{ name: 'look', arguments: '{"city": "Rome"}' }])
    })
  })

  test('names and arguments are those of a tool, whatever the model would write', async () => {
    const wish = held(form)
    if (wish === null) throw new Error('nothing is held')
    await withMask(wish.grammar, (open) => {
      for (const given of [
        ['look', '{"town": 5}'],
        ['lock', '{"city": "Rome"}'],
        ['look_up', '{"city": "Paris", "more": [1]}'],
        ['nothing_like_it', '[]'],
      ] as const) {
        const { text } = write(open(), before + calls(form, given))
        const { calls: found } = read(text, wish.mode, form)
        expect(found.length, text).toBeGreaterThan(0)
        for (const { name, arguments: own } of found) {
          const value = JSON.parse(own)
          if (name === 'plan') expect(Number.isInteger(value.days), text).toBe(true)
          else {
            expect(['look', 'look_up']).toContain(name)
            expect(['{"city":"Rome"}', '{"city":"Oslo"}'], text).toContain(JSON.stringify(value))
          }
        }
      }
    })
  })

  test('a tool that is not strict is held as far as a grammar can, and named', async () => {
    const wish = held(form)
    if (wish === null) throw new Error('nothing is held')
    const compiled = await compileGrammar(wish.grammar, byteTable(), { clock: systemClock })
    expect(compiled.unheld.map((place) => place.split('/').at(-1))).toEqual(['multipleOf'])
    const { text } = write(compiled.open(), calls(form, ['plan', '{"days": 8}']))
    expect(read(text, wish.mode, form).calls).toEqual([{ name: 'plan', arguments: '{"days": 8}' }])
    await compiled.dispose()
    const strict = held(form, { tools: [tool('plan', LAX)] })
    if (strict === null) throw new Error('nothing is held')
    await expect(compileGrammar(strict.grammar, byteTable(), { clock: systemClock })).rejects.toMatchObject({
      code: 'unsupported_schema',
    })
  })

  test('several calls are one answer, unless one is asked for', async () => {
    const [first, second] = [['look', '{"city": "Rome"}'] as const, ['look_up', '{"city": "Oslo"}'] as const]
    for (const isParallel of [true, false]) {
      const wish = held(form, { parallel_tool_calls: isParallel })
      if (wish === null) throw new Error('nothing is held')
      await withMask(wish.grammar, (open) => {
        const { text } = write(open(), calls(form, first, second))
        const { calls: found } = read(text, wish.mode, form)
        const isOne = !isParallel || frameOf(form).separator === null
        expect(argumentsOf(found)).toEqual(isOne ? [{ city: 'Rome' }] : [{ city: 'Rome' }, { city: 'Oslo' }])
        // what a hand writes behind its calls does not come, so that none of it is read as another
        expect(write(open(), `${calls(form, first)}{"name": "look", "arguments": {}}`).text).toBe(calls(form, first))
      })
    }
  })

  test('a mark inside reasoning is its text', async () => {
    const wish = held(form, {}, true)
    if (wish === null) throw new Error('nothing is held')
    const thought = `<think>${calls(form, ['look', '{"town": 5}'])} or <</think>`
    await withMask(wish.grammar, (open) => {
      const { text } = write(open(), `\n${thought}${calls(form, ['look', '{"city": "Bonn"}'])}`)
      expect(text.startsWith(`\n${thought}`)).toBe(true)
      const { reasoning, calls: found } = read(text, wish.mode, form, true)
      expect(reasoning).toBe(thought.slice('<think>'.length, -'</think>'.length))
      expect(found[0]).toMatchObject({ name: 'look' })
      expect(JSON.parse(found[0]?.arguments ?? '').city).toMatch(/^(Rome|Oslo)$/)
    })
  })
})

test('JSON whose first key is another is an answer, where calls are objects at the beginning', async () => {
  const wish = held('llama3_json')
  if (wish === null) throw new Error('nothing is held')
  await withMask(wish.grammar, (open) => {
    for (const text of ['{"city": "Rome"}', 'See {"name": "look", "parameters": {"town": 5}}', '{ "name": "look"}']) {
      expect(write(open(), text).text).toBe(text)
      expect(read(text, wish.mode, 'llama3_json')).toEqual({ reasoning: null, content: text, calls: [] })
    }
    expect(write(open(), '{"name":"look"').text).toMatch(/^\{"name": "look", "parameters": \{/)
  })
})

test("SmolLM3's calls in Python are text beside strict tools", () => {
  const wish = held('smollm3')
  if (wish === null) throw new Error('nothing is held')
  const text = '<code>look(town=5)</code>'
  expect(read(text, wish.mode, 'smollm3')).toMatchObject({ content: text, calls: [] })
})

test('where nothing is held, strict is said to be ignored', () => {
  for (const form of TOOL_FORMATS.filter((name) => CALL_FORMATS[name].frame === null)) {
    expect(held(form), form).toBeNull()
    expect(isStrictIgnored(request(), toToolUse(request()).mode, null)).toBe(true)
  }
  for (const more of [{ use_beam_search: true }, { tools: [tool('look', CITY, false)] }, { tool_choice: 'none' }])
    expect(held('hermes', more), JSON.stringify(more)).toBeNull()
  const lax = request({ tools: [tool('look', CITY, false)] })
  expect(isStrictIgnored(lax, toToolUse(lax).mode, null)).toBe(false)
  const required = request({ tool_choice: 'required' })
  expect(isStrictIgnored(required, toToolUse(required).mode, null)).toBe(false)
})

test('marks that are control tokens may be written as such', async () => {
  const wish = held('mistral_args')
  if (wish === null) throw new Error('nothing is held')
  const [mark, args, other] = [257, 258, 259]
  const bytes = byteTable()
  const starts = new Uint32Array(bytes.offsets)
  const offsets = new SharedArrayBuffer(4 * (starts.length + 3))
  new Uint32Array(offsets).set([...starts, ...Array(3).fill(starts.at(-1))])
  const controls = new Map([
    [mark, '[TOOL_CALLS]'],
    [args, '[ARGS]'],
    [other, '[IMG]'],
  ])
  const table = { ...bytes, offsets, controls }
  await withMask(
    wish.grammar,
    (open) => {
      const mask = open()
      const may = (id: number): boolean => {
        const words = mask.next()
        return words === null || (((words[id >>> 5] ?? 0) >>> (id & 31)) & 1) === 1
      }
      const take = (...ids: readonly number[]): void => {
        for (const id of ids) {
          expect(may(id), String(id)).toBe(true)
          mask.accept(id)
        }
      }
      take(...Buffer.from('Yes '), mark)
      expect([mark, args, other, STOP].map(may)).toEqual([false, false, false, false])
      take(...Buffer.from('look'))
      expect([mark, args, other].map(may)).toEqual([false, true, false])
      take(args, ...Buffer.from('{"city": "Rome"}'), STOP)
    },
    table,
  )
})
