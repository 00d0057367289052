/**
 * What is said of files for OpenAI's API: a sentence a kind, with its lines.
 */
import { describe, expect, it } from 'vitest'
import { findInFile } from '#plugins/fine-tuning/check/findings.js'

async function* bytes(text: string) {
  yield Buffer.from(text)
}
const find = async (text: string) =>
  (await findInFile(bytes(text))).map(({ verdict, sentence, lines, count }) => [verdict, sentence, lines, count])
const lines = (...values: readonly unknown[]) => values.map((value) => JSON.stringify(value)).join('\n')

const ASK = { role: 'user', content: 'q' }
const ANSWER = { role: 'assistant', content: 'a' }
const RIGHT = {
  ...{ type: 'string_check', name: 'right', operation: 'eq' },
  ...{ input: '{{sample.output_text}}', reference: '{{item.answer}}' },
}
const job = (more: object = {}) => ({ model: 'trainyard/spark', training_file: 'file-1', ...more })

describe('rows', () => {
  it('of all three methods run, each kind once', async () => {
    const preference = {
      input: { messages: [ASK] },
      preferred_output: [ANSWER],
      non_preferred_output: [{ ...ANSWER, content: 'b' }],
    }
    const rows = lines(
      { messages: [ASK, ANSWER] },
      { messages: [ASK, ANSWER] },
      { messages: [ASK], answer: 4 },
      preference,
    )
    expect(await find(rows)).toEqual([
      ['runs', 'a row of supervised jobs', [1, 2], 2],
      ['runs', 'a row of reinforcement jobs', [3], 1],
      ['runs', 'a row of preference jobs', [4], 1],
    ])
  })

  it('that are none are refused by their lines, a sentence a kind', async () => {
    const bad = { messages: [{ role: 'robot', content: 'q' }] }
    const found = await find(lines(...Array(9).fill(bad), { messages: [ASK] }, { other: 1 }))
    expect(found).toMatchObject([
      ['refused', expect.stringContaining('messages[0].role "robot"'), [1, 2, 3, 4, 5], 9],
      ['refused', expect.stringContaining('is no job, row, grader'), [11], 1],
      ['runs', 'a row of reinforcement jobs', [10], 1],
    ])
  })

  it('beside what is not JSON', async () => {
    expect(await find(`${lines({ messages: [ASK] })}\n{"cut": `)).toMatchObject([
      ['refused', 'a line is not JSON', [2], 1],
      ['runs', expect.any(String), [1], 1],
    ])
    expect(await find('no json\nat all')).toEqual([['refused', 'the file is neither JSON nor JSON Lines', [1], 1]])
  })
})

describe('jobs', () => {
  it('over many lines are one value', async () => {
    expect(await find(JSON.stringify(job(), null, 2))).toEqual([
      ['runs', 'a job that learns by supervised rows', [1], 1],
    ])
  })

  it('say what differs', async () => {
    const method = { type: 'reinforcement', reinforcement: { grader: { ...RIGHT } } }
    const found = await find(lines(job({ model: 'o4-mini', method, mood: 'good' })))
    expect(found).toMatchObject([
      ['differs', 'mood is ignored', [1], 1],
      ['differs', expect.stringContaining('model "o4-mini" is not here'), [1], 1],
      ['differs', expect.stringContaining('validation_file is not needed'), [1], 1],
      ['runs', 'a reinforcement job', [1], 1],
    ])
  })

  it('are refused for what requests are refused for', async () => {
    const integrations = [{ type: 'wandb', wandb: { project: 'p' } }]
    expect(await find(lines(job({ integrations })))).toMatchObject([
      ['refused', expect.stringContaining('integrations'), [1], 1],
    ])
    const wrong = { type: 'reinforcement', reinforcement: { grader: { ...RIGHT, operation: 'almost' } } }
    expect(await find(lines(job({ method: wrong })))).toMatchObject([
      ['refused', expect.stringContaining('method.reinforcement.grader.operation'), [1], 1],
      ['differs', expect.any(String), [1], 1],
    ])
    expect(await find(lines(job({ training_file: 3 })))).toMatchObject([
      ['refused', expect.stringContaining('training_file'), [1], 1],
    ])
  })
})

describe('graders and batches', () => {
  it('run, or say what they ask', async () => {
    const judge = { type: 'score_model', name: 'j', model: 'gpt-9', input: [ASK] }
    expect(await find(lines(RIGHT, { grader: RIGHT, model_sample: '4' }, judge))).toMatchObject([
      ['differs', expect.stringContaining('asks "gpt-9"'), [3], 1],
      ['runs', 'a grader of the kind "string_check"', [1, 2], 2],
      ['runs', 'graders/run', [2], 1],
      ['runs', 'a grader of the kind "score_model"', [3], 1],
    ])
  })

  it('say which requests a batch does not take', async () => {
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'm' } }
    expect(
      await find(lines(line, { ...line, url: '/v1/embeddings' }, { ...line, body: { stream: true } })),
    ).toMatchObject([
      ['refused', expect.stringContaining('"/v1/embeddings"'), [2], 1],
      ['refused', expect.stringContaining('body.stream'), [3], 1],
      ['runs', 'a request of a batch for /v1/chat/completions', [1], 1],
    ])
  })
})

it('lines and kinds are bounded', async () => {
  const many = Array.from({ length: 150 }, (_, i) => ({ custom_id: 'a', method: 'POST', url: `/v1/${i}` }))
  const found = await find(lines(...many))
  expect(found).toHaveLength(101)
  expect(found.at(-1)).toMatchObject(['refused', 'more is said of other lines', expect.any(Array), 50])
  const long = await find(JSON.stringify({ messages: 'x'.repeat(5_000_000) }))
  expect(long).toMatchObject([['refused', expect.any(String), [1], 1]])
})
