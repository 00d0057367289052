/** System messages where a template takes none: where their text goes. */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { foldings } from '#model/text/template/fold-system.js'

const turn = (role: string, content: string): JsonObject => ({ role, content })
const system = turn('system', 'S')
const folded = '<system-reminder>\nS\n</system-reminder>'
const called: JsonObject = { role: 'assistant', content: null, tool_calls: [] }

/** With system messages at the beginning only. */
const once = (messages: readonly JsonObject[]) => [...foldings(messages)][1]
const spelled = (messages: ReturnType<typeof once>) =>
  messages?.map((message) => {
    const { role, content } = message as JsonObject
    return `${String(role)}: ${JSON.stringify(content)}`
  })

describe('a system message', () => {
  test.each<[string, JsonObject[], string[]]>([
    ['after a question', [turn('user', 'a'), system, turn('assistant', 'b')], [`user: a ${folded}`, 'assistant: b']],
    [
      'before a question',
      [turn('user', 'a'), turn('assistant', 'b'), system, turn('user', 'c')],
      ['user: a', 'assistant: b', `user: ${folded} c`],
    ],
    [
      'between a call and its results',
      [turn('user', 'a'), called, system, turn('tool', 'x'), turn('tool', 'y'), turn('assistant', 'b')],
      ['user: a', 'assistant: null', 'tool: x', `tool: y ${folded}`, 'assistant: b'],
    ],
    [
      'after a result',
      [turn('user', 'a'), called, turn('tool', 'x'), system],
      ['user: a', 'assistant: null', `tool: x ${folded}`],
    ],
    [
      'last, behind an answer',
      [turn('user', 'a'), turn('assistant', 'b'), system],
      ['user: a', 'assistant: b', `user: ${folded}`],
    ],
    ['behind another', [system, system, turn('user', 'a')], ['system: S S', 'user: a']],
    ['marked already', [turn('user', 'a'), turn('system', folded)], [`user: a ${folded}`]],
  ])('%s', (_, messages, expected) => {
    const plain = spelled(once(messages))?.map((line) =>
      line.replaceAll('"', '').replaceAll('\\n\\n', ' ').replaceAll('\\n', '\n'),
    )
    expect(plain).toEqual(expected)
  })

  test('of parts stays parts', () => {
    const parts = { role: 'system', content: [{ type: 'text', text: 'S' }] }
    expect(once([turn('user', 'a'), parts])).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: folded },
        ],
      },
    ])
  })

  test('of the beginning is the first word of the user where none is taken', () => {
    expect([...foldings([system, turn('user', 'a')])]).toEqual([[system, turn('user', 'a')], [turn('user', 'S\n\na')]])
    expect([...foldings([turn('user', 'a')])]).toHaveLength(1)
  })

  test('added later leaves what was before it as it was', () => {
    const before = [turn('user', 'a'), turn('assistant', 'b'), system, turn('user', 'c'), turn('assistant', 'd')]
    const after = [...before, system, turn('user', 'e')]
    expect(once(after)?.slice(0, 4)).toEqual(once(before))
  })
})
