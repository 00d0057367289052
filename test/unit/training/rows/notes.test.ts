/** What is said about data that trains: older forms, fields that nothing reads, empty and edited answers, slips of JSON. */
import { describe, expect, it } from 'vitest'
import { readPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { type RowOptions, readSftExamples, type SftExample } from '#formats/rows/examples/sft-example.js'
import { createDataNotes } from '#formats/rows/notes/data-notes.js'
import { findDuplicateKey, isWellFormedJson } from '#formats/rows/notes/json-text.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { noSkips, type TrajectoryText, trainableTurns } from '#training/rows/turns.js'

async function* bytes(rows: readonly unknown[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join(''))
}
async function readSft(rows: readonly unknown[], options: RowOptions = {}) {
  const notes = createDataNotes()
  const examples: SftExample[] = []
  for await (const example of readSftExamples(bytes(rows), { ...options, notes })) examples.push(example)
  return { examples, said: notes.sentences() }
}
const user = { role: 'user', content: 'q' }
const answer = (content: unknown, more: Record<string, unknown> = {}) => ({ role: 'assistant', content, ...more })
const row = (content: unknown, more: Record<string, unknown> = {}) => ({ messages: [user, answer(content, more)] })

describe('older forms of messages', () => {
  const call = { name: 'get_weather', arguments: '{"city":"Rome"}' }

  it('function_call, role function and functions are calls, results and tools', async () => {
    const messages = [
      user,
      answer(null, { function_call: call }),
      { role: 'function', name: 'get_weather', content: 'sunny' },
      answer('Sunny.'),
    ]
    const { examples, said } = await readSft([{ messages, functions: [{ name: 'get_weather' }] }])
    expect(examples[0]).toMatchObject({
      messages: [
        user,
        answer(null, { tool_calls: [{ id: 'call_0', type: 'function', function: call }] }),
        { role: 'tool', tool_call_id: 'call_0', content: 'sunny' },
        answer('Sunny.'),
      ],
      tools: [{ type: 'function', function: { name: 'get_weather' } }],
    })
    expect(examples[0]?.messages[1]).not.toHaveProperty('function_call')
    expect(said).toEqual([
      'older forms were converted: function_call as tool_calls (line 1), role function as tool (line 1), functions as tools (line 1)',
    ])
  })

  it('a refusal trains as content', async () => {
    const { examples, said } = await readSft([row(null, { refusal: "I can't." })])
    expect(examples[0]?.messages[1]).toEqual(answer("I can't."))
    expect(said).toEqual(['older forms were converted: refusal as content (line 1)'])
  })

  it.each([
    [row('yes', { refusal: 'no' }), 'has messages[1] with both content and refusal'],
    [row(null, { function_call: call, tool_calls: [{ function: call }] }), 'with both function_call and tool_calls'],
    [row(null, { function_call: 'f' }), 'with a function_call that is no object with a name'],
    [{ ...row('a'), tools: [{ function: call }], functions: [call] }, 'has both functions and tools'],
  ])('%j is refused by name', async (bad, message) => {
    await expect(readSft([row('a'), bad])).rejects.toMatchObject({
      code: 'invalid_example',
      message: expect.stringContaining(`Line 2 `),
    })
    await expect(readSft([bad])).rejects.toThrow(message)
  })

  it('those of preference rows and trajectories are the same', async () => {
    const notes = createDataNotes()
    const pair = { prompt: [user], chosen: [answer('a')], rejected: [answer(null, { refusal: 'No.' })] }
    for await (const example of readPreferenceExamples(bytes([pair]), { notes })) {
      expect(example.rejected).toEqual([answer('No.')])
    }
    const group = { trajectories: [{ messages_and_choices: [user, answer(null, { function_call: call })], reward: 1 }] }
    const [parsed] = parseTrajectoryGroups([group], { notes })
    expect(parsed?.trajectories[0]?.histories[0]?.items[1]?.message).toMatchObject({ tool_calls: [{ function: call }] })
    expect(notes.sentences()).toEqual([
      'older forms were converted: refusal as content (line 1), function_call as tool_calls (trajectory_groups[0].trajectories[0].messages_and_choices[1])',
    ])
  })
})

describe('what has no effect', () => {
  it('fields that nothing reads are named, counted and placed; those that say nothing are not', async () => {
    const { said } = await readSft([
      row('a', { refusal: null, annotations: [], audio: null }),
      { ...row('a', { audio: { id: 'x' } }), source: 'web' },
      { ...row([{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }]), source: 'web', prompt: 'q' },
    ])
    expect(said).toEqual([
      'fields that nothing reads: messages[].audio (line 2), source (2 times, first line 2), messages[].content[].cache_control (line 3), prompt (line 3)',
    ])
  })

  it('those of preference rows and trajectories are named, too', async () => {
    const notes = createDataNotes()
    const input = { messages: [user], parallel_tool_calls: true }
    const pairs = [
      { prompt: 'q', chosen: 'a', rejected: 'b', score_chosen: 8.5 },
      { input, preferred_output: [answer('a')], non_preferred_output: [answer('b')] },
    ]
    for await (const _ of readPreferenceExamples(bytes(pairs), { notes }));
    const trajectory = { messages_and_choices: [{ ...user, mood: 'bad' }, answer('a')], reward: 1, rewards: [1] }
    parseTrajectoryGroups([{ trajectories: [trajectory], task: 'x' }], { notes })
    expect(notes.sentences()).toEqual([
      'fields that nothing reads: score_chosen (line 1), input.parallel_tool_calls (line 2), task (trajectory_groups[0]), trajectories[].rewards (trajectory_groups[0].trajectories[0]), messages_and_choices[].mood (trajectory_groups[0].trajectories[0].messages_and_choices[0])',
    ])
  })

  it('reasoning is named where the template does not write it', async () => {
    const rows = [row('4', { reasoning_content: 'two and two' })]
    expect((await readSft(rows, { isReasoningRead: true })).said).toEqual([])
    expect((await readSft(rows, { isReasoningRead: false })).said).toEqual([
      'fields that nothing reads: messages[].reasoning_content (line 1)',
    ])
  })
})

describe('empty answers', () => {
  const empty = '3 assistant turns are empty and train nothing but their ends (first line 1)'

  it('are counted where they train', async () => {
    const calls = row(null, { tool_calls: [{ function: { name: 'f', arguments: '{}' } }] })
    const rows = [row(''), row(null), row([{ type: 'text', text: ' ' }]), calls, row('a'), row('', { weight: 0 })]
    expect((await readSft(rows)).said).toEqual([empty])
    const earlier = { messages: [user, answer(''), user, answer('a')] }
    expect((await readSft([earlier], { assistantTurns: 'last' })).said).toEqual([])
    expect((await readSft([earlier])).said[0]).toContain('1 assistant turn is empty')
  })

  it('reasoning is an answer where the template writes it', async () => {
    const thought = [row('', { reasoning_content: 'hm' })]
    expect((await readSft(thought, { isReasoningRead: true })).said).toEqual([])
    expect((await readSft(thought, { isReasoningRead: false })).said.join()).toContain('1 assistant turn is empty')
  })
})

describe('slips of JSON', () => {
  it('a key that stands twice in one object is refused, naming it and the line', async () => {
    const twice = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","content":"b"}]}'
    await expect(readSft([row('a'), twice])).rejects.toMatchObject({
      code: 'duplicate_key',
      message: 'Line 2 has the key "content" twice in one object.',
    })
  })

  it.each([
    ['{"a":{"b":1},"c":[{"b":1},{"b":2}],"d":"{\\"a\\":1,\\"a\\":2}"}', null],
    ['{"a":1,"b":2,"\\u0061":3}', 'a'],
    ['{"x":[{"k\\\\":1, "k\\\\" :2}]}', 'k\\'],
    ['["a","a"]', null],
  ])('keys of %s', (text, key) => {
    expect(findDuplicateKey(text)).toBe(key)
  })

  it('half of a surrogate pair is counted', async () => {
    const half = JSON.stringify(row('x')).replace('"x"', '"\\ud83d!"')
    const { said } = await readSft([row('🙂'), half])
    expect(said).toEqual([expect.stringMatching(/^1 text has half of a surrogate pair .*\(line 2\)$/)])
  })

  it.each([
    ['"\\ud83d\\ude42"', true],
    ['"\\ud83d"', false],
    ['"\\ude42"', false],
    ['"\\\\ud83d"', true],
    ['"\\ud83d\\ud83d\\ude42"', false],
    ['"\\n\\u00e9"', true],
  ])('%s', (text, isWellFormed) => {
    expect(isWellFormedJson(text)).toBe(isWellFormed)
  })
})

describe('text beside token ids', () => {
  const spelled = ['', '<think>', 'so', '</think>', ' Hel', 'lo', '<end>', 'f']
  const text: TrajectoryText = {
    vocabularySize: 8,
    renderPrompt: () => [1],
    renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
    leftOutOf: () => [],
    textOf: (ids) => ids.map((id) => spelled[id]).join(''),
    isControl: (id) => id === 6,
    tokenIdOf: () => null,
  }
  it.each([
    ['as it is spelled', { content: 'Hello' }, []],
    ['cut at a stop string, reasoning apart', { content: 'Hel', reasoning_content: 'so' }, []],
    ['a call taken out', { content: 'other words', tool_calls: [{ function: { name: 'f', arguments: '{}' } }] }, []],
    ['nothing', { content: null }, []],
    [
      'edited',
      { content: 'Goodbye' },
      ['1 answer says something else than its token ids spell; the token ids train (here)'],
    ],
    [
      'another call',
      { content: '', tool_calls: [{ function: { name: 'g' } }] },
      [expect.stringContaining('1 answer says')],
    ],
  ])('%s', (_, message, said) => {
    const notes = createDataNotes()
    const choice = {
      message: { role: 'assistant', ...message },
      token_ids: [1, 2, 3, 4, 5, 6, 7],
      prompt_token_ids: [1],
    }
    const group = { trajectories: [{ messages_and_choices: [user, choice], reward: 1 }] }
    const history = parseTrajectoryGroups([group])[0]?.trajectories[0]?.histories[0]
    const options = { text, allowTrainingWithoutLogprobs: true, maskTruncated: false, notes }
    trainableTurns(history ?? { items: [], tools: null, source: 'messages' }, 'here', options, noSkips())
    expect(notes.sentences()).toEqual(said)
  })
})
