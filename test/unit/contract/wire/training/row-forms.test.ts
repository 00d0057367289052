/**
 * Rows of other trainers: each form by its name, the row that its conversion makes, and that no row that is read is refused; files that are
 * no JSON Lines. The readers of both sides say the same sentence.
 */
import { describe, expect, it, test } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { createRowConverter } from '#contract/wire/training/row-forms/convert-rows.js'
import { unreadOfRow } from '#contract/wire/training/row-forms/read-fields.js'
import { findForeignFile, findForeignRow, type RowKind } from '#contract/wire/training/row-forms.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { createDataNotes } from '#formats/rows/notes/data-notes.js'
import { checkConversations, checkPreferences } from '../../../../../src/cli/input/conversation-file.js'

const user = (content: string): JsonObject => ({ role: 'user', content })
const answer = (content: string): JsonObject => ({ role: 'assistant', content })
const system = { role: 'system', content: 'Be brief.' }
const turns = [
  { from: 'human', value: "What's tea?" },
  { from: 'gpt', value: 'A drink.' },
]
const messages = [user("What's tea?"), answer('A drink.')]

const pairWith = (others: JsonObject): JsonObject => ({ prompt: 'q', chosen: 'a', rejected: 'b', ...others })

/** Kind of job, part of the name, the row, and the row it becomes; null where one row says too little. */
const foreign: readonly (readonly [RowKind, string, JsonObject, JsonObject | null])[] = [
  ['conversation', 'a ShareGPT row', { conversations: turns, id: 7 }, { id: 7, messages }],
  ['conversation', 'a ShareGPT row', { messages: turns }, { messages }],
  ['conversation', 'a ShareGPT row', { dialog: turns, system: 'Be brief.' }, { messages: [system, ...messages] }],
  ['conversation', 'a conversation by another name', { conversation: messages }, { messages }],
  ['conversation', 'messages as JSON text', { messages: JSON.stringify(messages) }, { messages }],
  [
    'conversation',
    'an Alpaca row (instruction, input and output)',
    { instruction: 'Add.', input: '1+1', output: '2' },
    { messages: [user('Add.\n1+1'), answer('2')] },
  ],
  [
    'conversation',
    'an Alpaca row',
    { instruction: 'Add.', input: '', output: '2', system: 'Be brief.', history: [['Hi', 'Hello']] },
    { messages: [system, user('Hi'), answer('Hello'), user('Add.'), answer('2')] },
  ],
  [
    'conversation',
    'a question and its answer',
    { instruction: 'Who?', context: 'A text.', response: 'Me.', category: 'qa' },
    { category: 'qa', messages: [user('Who?\nA text.'), answer('Me.')] },
  ],
  ['conversation', 'a question and its answer', { question: 'q', answer: 'a' }, { messages: [user('q'), answer('a')] }],
  ['conversation', 'a question and its answer', { prompt: 'q', response: 'a' }, { messages: [user('q'), answer('a')] }],
  ['conversation', 'a question and its answer', { input: 'q', output: 'a' }, { messages: [user('q'), answer('a')] }],
  [
    'conversation',
    'a ShareGPT row',
    {
      conversations: [
        { from: 'human', value: 'Weather?' },
        { from: 'function_call', value: '{"name":"look","arguments":{"city":"Rome"}}' },
        { from: 'observation', value: 'sunny' },
        { from: 'gpt', value: 'Sunny.' },
      ],
      tools: '[{"name":"look","parameters":{"type":"object"}}]',
    },
    {
      messages: [
        user('Weather?'),
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_0', type: 'function', function: { name: 'look', arguments: { city: 'Rome' } } }],
        },
        { role: 'tool', content: 'sunny', tool_call_id: 'call_0' },
        answer('Sunny.'),
      ],
      tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }],
    },
  ],
  ['conversation', 'a conversation with tools as JSON text', { messages, tools: '' }, { messages }],
  ['preference', 'a preference row with tools as JSON text', pairWith({ tools: '[]' }), pairWith({ tools: [] })],
  ['conversation', 'a row of plain text', { text: 'Once.' }, null],
  ['conversation', 'a message instead of a conversation', answer('a'), null],
  ['conversation', 'a preference row, expected messages', { prompt: 'q', chosen: 'a', rejected: 'b' }, null],
  ['conversation', 'a trajectory group', { trajectories: [] }, null],
  ['preference', 'a trajectory group', { trajectories: [] }, null],
  ['preference', 'a conversation without a preference, expected prompt, chosen', { messages }, null],
  ['preference', 'a conversation without a preference', { prompt: 'q', completion: 'a' }, null],
  ['preference', 'a ShareGPT row', { conversations: turns }, null],
  ['preference', 'a KTO row', { prompt: 'q', completion: 'a', label: false }, null],
  ['preference', 'a KTO row', { messages, kto_tag: true }, null],
  ['conversation', 'a KTO row', { prompt: 'q', completion: 'a', label: true }, null],
  ['conversation', 'a KTO row', { messages, label: false }, null],
  [
    'preference',
    'a ShareGPT preference row',
    {
      conversations: turns.slice(0, 1),
      chosen: { from: 'gpt', value: 'A drink.' },
      rejected: { from: 'gpt', value: 'No.' },
    },
    { prompt: messages.slice(0, 1), chosen: [answer('A drink.')], rejected: [answer('No.')] },
  ],
  [
    'preference',
    'an HH-RLHF row',
    { chosen: '\n\nHuman: q\n\nAssistant: a\n\nHuman: r\n\nAssistant: s', rejected: '\n\nHuman: q\n\nAssistant: b' },
    { chosen: [user('q'), answer('a'), user('r'), answer('s')], rejected: [user('q'), answer('b')] },
  ],
  [
    'preference',
    'a preference row whose prompt has another name',
    { question: 'q', chosen: 'a', rejected: 'b' },
    { prompt: 'q', chosen: 'a', rejected: 'b' },
  ],
  [
    'preference',
    'a preference row whose prompt has another name',
    { system: 'Be brief.', question: 'q', chosen: 'a', rejected: 'b' },
    { prompt: [system, user('q')], chosen: 'a', rejected: 'b' },
  ],
]

const readers = {
  conversation: { service: countSftExamples, commandLine: checkConversations },
  preference: { service: countPreferenceExamples, commandLine: checkPreferences },
}

async function refusalOf(read: Promise<unknown>): Promise<{ readonly message: string; readonly hint: string }> {
  const error = await read.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AppError)) throw new Error(`no refusal: ${String(error)}`)
  return { message: error.message, hint: error.hint ?? '' }
}

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

describe('a row in the form of another trainer', () => {
  test.each(foreign)('%s: is %s in the words of both readers', async (kind, name, row) => {
    const text = JSON.stringify(row)
    const service = await refusalOf(readers[kind].service(bytes(text)))
    const commandLine = await refusalOf(readers[kind].commandLine(new Blob([text]), 'f'))
    expect(service.message).toMatch(
      /^Line 1 is .*, expected (messages, or prompt and completion(, that are all to be learned)?|prompt, chosen and rejected)\.$/,
    )
    expect(service.message).toContain(name)
    expect(`Line ${commandLine.message.slice('f:'.length).replace(':', '')}.`).toBe(service.message)
    expect(commandLine.hint).toBe(service.hint)
    expect(service.hint).not.toBe('')
  })

  const converted = foreign.filter(([, , , row]) => row !== null)
  test.each(converted)('%s: %s becomes one that is read', async (kind, _name, row, wanted) => {
    const target = kind === 'conversation' ? 'sft' : 'dpo'
    expect(findForeignRow(row, kind)?.hint).toBe(
      `convert it: trainyard data convert rows.jsonl --to ${target} --out converted.jsonl`,
    )
    const made = createRowConverter(kind).convert(row)
    expect(made).toMatchObject({ rows: [wanted] })
    const text = JSON.stringify('rows' in made ? made.rows[0] : null)
    expect(JSON.parse(text)).toEqual(wanted)
    expect(await readers[kind].service(bytes(text))).toBe(1)
    await readers[kind].commandLine(new Blob([text]), 'f')
  })

  it('that says too little says why', () => {
    const call = { from: 'function_call', value: 'look' }
    const problems = [
      { conversations: [turns[0] ?? {}, call] },
      { conversations: [{ from: 'narrator', value: 'Once.' }] },
      { messages, tools: 'none' },
      { instruction: 'Add.', output: '2', history: ['Hi'] },
    ].map((row) => findForeignRow(row, 'conversation')?.hint)
    expect(problems.map((hint) => hint?.split(': write each row as')[0])).toEqual([
      'its function_call turn is no JSON of a name and arguments',
      'its turn is from "narrator", which is no role',
      'its tools are a text that is no JSON list of objects',
      'its history is no list of questions with their answers',
    ])
  })

  it('that nobody knows is told by at most five of its names', () => {
    const row = Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [name, 1]))
    expect(findForeignRow(row, 'preference')?.problem).toBe(
      'has "a", "b", "c", "d", "e", …, expected prompt, chosen and rejected',
    )
  })
})

test.each<readonly [RowKind, JsonObject]>([
  ['conversation', { messages, conversations: turns, instruction: 'x', output: 'y' }],
  ['conversation', { prompt: 'q', completion: 'a', question: 'x', answer: 'y', chosen: 'c', rejected: 'd' }],
  [
    'preference',
    { prompt: 'q', chosen: 'Human: a\n\nAssistant: b', rejected: 'Human: a\n\nAssistant: c', question: 'x' },
  ],
  ['preference', { chosen: messages, rejected: [...messages.slice(0, 1), answer('No.')], messages, question: 'x' }],
  [
    'preference',
    { input: { messages: [user('q')] }, preferred_output: [answer('a')], non_preferred_output: [answer('b')] },
  ],
])('%s: a row that is read stays one, whatever else it has', async (kind, row) => {
  const text = JSON.stringify(row)
  expect(findForeignRow(row, kind)).toBeNull()
  expect(await readers[kind].service(bytes(text))).toBe(1)
  await readers[kind].commandLine(new Blob([text]), 'f')
})

test('a line that is no JSON is told with the place and what stands there, by both readers', async () => {
  const fault = 'column 14: NaN is no number of JSON'
  const text = '{"messages": NaN}\n'
  for (const { service, commandLine } of Object.values(readers)) {
    const refused = await refusalOf(service(bytes(text)))
    expect(refused).toEqual({ message: 'Line 1 is not valid JSON.', hint: fault })
    expect((await refusalOf(commandLine(new Blob([text]), 'f'))).message).toBe(`f:1: not valid JSON: ${refused.hint}`)
  }
})

describe('a file that is no JSON Lines', () => {
  const rows = [{ messages }, { messages }]
  const array = 'is one JSON array, expected JSON Lines: one object a line'
  test.each([
    ['an array over lines', JSON.stringify(rows, null, 2), array],
    ['an array on one line, behind blank ones', `\n\n${JSON.stringify(rows)}\n`, array],
    [
      'objects over lines',
      JSON.stringify(rows[0], null, 2),
      'has JSON over several lines, expected JSON Lines: one object a line',
    ],
  ])('%s is told in one sentence', async (_name, text, problem) => {
    const hint = 'convert it: trainyard data convert rows.json --out converted.jsonl'
    for (const { service, commandLine } of Object.values(readers)) {
      expect(await refusalOf(service(bytes(`\ufeff${text}`)))).toEqual({ message: `The file ${problem}.`, hint })
      expect(await refusalOf(commandLine(new Blob([`\ufeff${text}`]), 'f'))).toEqual({ message: `f ${problem}`, hint })
    }
  })

  test.each(['{"messages":[', '[1]', '[]', JSON.stringify(messages)])('%s is looked at as a row', (line) => {
    expect(findForeignFile(line)).toBeNull()
  })
})

describe('a label that is a number', () => {
  it.each([0, 1, 5, '1'])(
    '%j beside messages is a class of the data set: the row trains, the label is named as unread',
    async (label) => {
      const row = { messages, label }
      expect(findForeignRow(row, 'conversation')).toBeNull()
      expect(unreadOfRow(row)).toEqual(['label'])
      const bytes = Buffer.from(`${JSON.stringify(row)}\n`)
      const notes = createDataNotes()
      expect(await readers.conversation.service(new Blob([bytes]).stream(), { notes })).toBe(1)
      expect(notes.sentences().join(' ')).toContain('label')
      expect(await readers.conversation.commandLine(new Blob([bytes]), 'rows.jsonl')).toMatchObject({ rowCount: 1 })
      expect(createRowConverter('conversation').convert(row)).toMatchObject({ rows: [{ messages }] })
    },
  )

  it.each([
    { prompt: 'q', completion: 'a', label: 0 },
    { messages, label: false },
    { messages, label: 'true' },
    { messages, kto_tag: 0 },
    { messages, label: 3, kto_tag: 1 },
  ])('says good or bad where it can say nothing else: %j', (row) => {
    expect(findForeignRow(row, 'conversation')?.problem).toContain('a KTO row')
  })
})
