/** Preference files: the forms of a row, which line is named when it is wrong, what is dropped. */
import { describe, expect, it } from 'vitest'
import { readPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { type PreferenceText, readPreferenceBatches, surveyPreferences } from '#formats/rows/preference-data.js'

/** Words are tokens; words of the chosen turns train. */
const text: PreferenceText = {
  isReasoningRead: true,
  renderWithMask: ({ messages }, turns) => {
    const words = messages.map(({ content }) => String(content).split(' ').filter(Boolean))
    const trains = (m: number): boolean => Array.isArray(turns) && turns.includes(m)
    return {
      tokenIds: words.flatMap((list) => list.map((word) => word.length)),
      mask: words.flatMap((list, m) => list.map(() => (trains(m) ? 1 : 0))),
      leftOut: messages.filter(({ role }) => role === 'unknown').map(({ role }) => String(role)),
    }
  },
}
const options = { text, batchSize: 2, maxLength: 8 }

async function* bytes(rows: readonly unknown[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join(''))
}
async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}
const user = { role: 'user', content: 'q' }
const answer = (content: string) => ({ role: 'assistant', content })

describe('readPreferenceExamples', () => {
  it.each([
    ['texts', { prompt: 'q', chosen: 'a', rejected: 'b' }],
    ['messages', { prompt: [user], chosen: [answer('a')], rejected: [answer('b')] }],
    ['whole conversations', { chosen: [user, answer('a')], rejected: [user, answer('b')] }],
    [
      "OpenAI's rows",
      { input: { messages: [user] }, preferred_output: [answer('a')], non_preferred_output: [answer('b')] },
    ],
  ])('reads %s', async (_, row) => {
    expect(await collect(readPreferenceExamples(bytes([row])))).toEqual([
      { lineNumber: 1, prompt: [user], chosen: [answer('a')], rejected: [answer('b')], tools: null },
    ])
  })

  it("takes the tools of OpenAI's rows", async () => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const input = { messages: [user], tools, parallel_tool_calls: true }
    const row = { input, preferred_output: [answer('a')], non_preferred_output: [answer('b')] }
    expect(await collect(readPreferenceExamples(bytes([row])))).toMatchObject([{ tools }])
  })

  it.each([
    ['one output', { input: { messages: [user] }, preferred_output: [answer('a')] }, 'invalid_example'],
    [
      "OpenAI's fields mixed with others",
      { input: { messages: [user] }, preferred_output: [answer('a')], rejected: 'b' },
      'invalid_example',
    ],
    [
      'input that is no object',
      { input: 'q', preferred_output: [answer('a')], non_preferred_output: [answer('b')] },
      'invalid_example',
    ],
    [
      'equal outputs',
      { input: { messages: [user] }, preferred_output: [answer('a')], non_preferred_output: [answer('a')] },
      'equal_answers',
    ],
    ['no answer', { prompt: 'q', chosen: 'a' }, 'invalid_example'],
    ['answers without anything in common and no prompt', { chosen: 'a', rejected: 'b' }, 'invalid_example'],
    ['equal answers', { prompt: 'q', chosen: 'a', rejected: 'a' }, 'equal_answers'],
    ['an answer of the user', { prompt: 'q', chosen: [user], rejected: 'a' }, 'wrong_last_role'],
    ['an answer that ends early', { chosen: [user], rejected: [user, answer('b')] }, 'wrong_last_role'],
    ['no object', '[1]', 'invalid_example'],
    ['no JSON', '{', 'invalid_json'],
  ])('refuses %s, naming the line', async (_, row, code) => {
    const rows = [{ prompt: 'q', chosen: 'a', rejected: 'b' }, row]
    await expect(collect(readPreferenceExamples(bytes(rows)))).rejects.toMatchObject({ code, details: { line: 2 } })
  })
})

describe('a prompt beside whole conversations', () => {
  const system = { role: 'system', content: 's' }
  const [a, b] = [answer('a'), answer('b')]
  const earlier = [user, answer('old'), { role: 'user', content: 'q2' }]
  it.each([
    ['a text that both repeat', { prompt: 'q', chosen: [user, a], rejected: [user, b] }, [user]],
    ['messages that both repeat', { prompt: [user], chosen: [user, a], rejected: [user, b] }, [user]],
    ['white space around what is repeated', { prompt: ' q\n', chosen: [user, a], rejected: [user, b] }, [user]],
    [
      'a system message in front of it',
      { prompt: 'q', chosen: [system, user, a], rejected: [system, user, b] },
      [system, user],
    ],
    [
      'a system message the prompt alone has',
      { prompt: [system, user], chosen: [user, a], rejected: [user, b] },
      [system, user],
    ],
    ['the first of several turns', { prompt: 'q', chosen: [...earlier, a], rejected: [...earlier, b] }, earlier],
    ['the last of several turns', { prompt: 'q2', chosen: [...earlier, a], rejected: [...earlier, b] }, earlier],
    ['one conversation and one answer', { prompt: 'q', chosen: [user, a], rejected: 'b' }, [user]],
    [
      'a prompt that ends with the system',
      { prompt: [system], chosen: [user, a], rejected: [user, b] },
      [system, user],
    ],
    ['answers alone', { prompt: earlier, chosen: [a], rejected: [b] }, earlier],
  ])('counts once: %s', async (_, row, prompt) => {
    const [example] = await collect(readPreferenceExamples(bytes([row])))
    expect(example).toMatchObject({ prompt, chosen: [a], rejected: [b] })
  })

  it.each([
    ['text', 'another question'],
    ['list', [{ role: 'user', content: 'another question' }]],
  ])('refuses a %s that the conversations contradict, naming the line', async (_, prompt) => {
    const rows = [
      { prompt: 'q', chosen: 'a', rejected: 'b' },
      { prompt, chosen: [user, a], rejected: [user, b] },
    ]
    await expect(collect(readPreferenceExamples(bytes(rows)))).rejects.toMatchObject({
      code: 'contradicting_prompt',
      message: expect.stringContaining('Line 2 has a prompt that chosen and rejected contradict'),
      hint: expect.stringContaining('leave out prompt'),
    })
  })
})

describe('readPreferenceBatches', () => {
  it('trains the answers alone, also those of several turns', async () => {
    const row = {
      prompt: [user, answer('old'), user],
      chosen: [answer('a b'), user, answer('c')],
      rejected: [answer('d')],
    }
    const [batch] = await collect(readPreferenceBatches(bytes([row]), options))
    expect([...batch!.pairs[0]!.chosen.lossMask]).toEqual([0, 0, 0, 1, 1, 0, 1])
    expect([...batch!.pairs[0]!.rejected.lossMask]).toEqual([0, 0, 0, 1])
  })

  it('drops a pair of which one answer is too long or empty, and names it', async () => {
    const pair = { prompt: 'q', chosen: 'a', rejected: 'b' }
    const rows = [pair, { ...pair, chosen: 'w '.repeat(20) }, { ...pair, rejected: ' ' }, pair, pair]
    const survey = await surveyPreferences(bytes(rows), options)
    expect(survey).toMatchObject({
      exampleCount: 5,
      pairCount: 3,
      batchCount: 3,
      trainableBatchCount: 3,
      overlengthCount: 1,
      untrainableCount: 1,
      leftOutLines: { overlength: [2], untrainable: [3] },
      longestLength: 2,
    })
  })
})
