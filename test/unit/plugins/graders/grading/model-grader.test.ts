/**
 * Graders that ask a model: what it is asked, how its answer is read, and each way in which it may fail, by its flag.
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { grade } from '#plugins/graders/grading/grade.js'
import { gradeWith } from '#plugins/graders/grading/grade-with.js'
import { type AskModel, type ModelRequest, withBounds } from '#plugins/graders/grading/model-grader.js'
import { toSample } from '#plugins/graders/grading/sample.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { combineRewards } from '#plugins/rl-library/rewards.js'
import { Trajectory } from '#sdk/rl/trajectory.js'

const SCORE = {
  type: 'score_model',
  name: 'judge',
  model: 'mine',
  input: [{ role: 'user', content: ['Grade', { type: 'input_text', text: '{{sample.output_text}} of {{item.n}}' }] }],
  range: [0, 10],
}
const LABEL = {
  type: 'label_model',
  name: 'label',
  model: 'mine',
  input: [{ role: 'user', content: 'x' }],
  labels: ['good', 'bad'],
  passing_labels: ['good'],
}

/** Answers with these, one after the other; an error is thrown. */
function scripted(...answers: readonly (string | Error | { readonly refusal: string })[]) {
  const requests: ModelRequest[] = []
  const ask: AskModel = async (request) => {
    const answer = answers[requests.length]
    requests.push(request)
    if (answer instanceof Error || answer === undefined) throw answer ?? new Error('nothing more')
    const message = typeof answer === 'string' ? { content: answer } : { content: null, ...answer }
    return { choices: [{ message, finish_reason: 'stop' }], usage: { prompt_tokens: 7, completion_tokens: 3 } }
  }
  return { ask, requests }
}
const run = (spec: JsonObject, ask?: AskModel) =>
  grade(readGrader(spec), { item: { n: 3 }, sample: toSample('answer') }, { ask })

describe('score_model', () => {
  it('asks with templates filled in, at temperature 0, for a structured answer, and sums tokens', async () => {
    const { ask, requests } = scripted('{"steps":[],"result":7.5}')
    expect(await run({ ...SCORE, sampling_params: { seed: 4, max_completions_tokens: 50 } }, ask)).toEqual({
      reward: 7.5,
      parts: {},
      passes: {},
      errors: [],
      usage: { mine: { prompt_tokens: 7, completion_tokens: 3, cached_tokens: 0 } },
    })
    const [request] = requests
    expect(request).toMatchObject({ model: 'mine', temperature: 0, seed: 4, max_completion_tokens: 50 })
    expect(request?.messages.at(-1)).toEqual({ role: 'user', content: 'Grade\nanswer of 3' })
    expect(request?.response_format).toMatchObject({
      json_schema: { strict: true, schema: { required: ['steps', 'result'] } },
    })
  })

  it.each([
    ['{"result": 99}', 10],
    ['{"result": -1}', 0],
    ['Well: {"result": "4"}.', 4],
  ])('%s is %d', async (answer, reward) => {
    expect(await run(SCORE, scripted(answer).ask)).toMatchObject({ reward, errors: [] })
  })

  it.each([
    ['no JSON', ['nine', 'ten'], 'model_grader_parse_error', 2],
    ['no number', ['{"result":"high"}', '{"result":null}'], 'model_grader_parse_error', 2],
    ['a refusal', [{ refusal: 'I will not' }], 'model_grader_refusal_error', 1],
    ['no answer', [new Error('away'), new Error('away'), new Error('still away')], 'model_grader_server_error', 3],
  ])('%s is its flag, after the tries it has', async (_, answers, flag, tries) => {
    const { ask, requests } = scripted(...answers)
    expect(await run(SCORE, ask)).toMatchObject({ reward: 0, errors: [{ flag, grader: 'judge' }] })
    expect(requests).toHaveLength(tries)
  })

  it('one unreadable answer and two failures are asked again', async () => {
    const { ask, requests } = scripted('nine', new Error('away'), new Error('away'), '{"result":9}')
    expect(await run(SCORE, ask)).toMatchObject({ reward: 9, errors: [] })
    expect(requests).toHaveLength(4)
  })

  it('without anybody to ask is an error, and gradeWith refuses it at once', async () => {
    expect(await run(SCORE)).toMatchObject({ reward: 0, errors: [{ flag: 'model_grader_server_error' }] })
    expect(() => gradeWith(SCORE)).toThrow(/was given no models/)
  })

  it('who gives up gets no reward of 0', async () => {
    const ending = new AbortController()
    const ask: AskModel = async () => {
      ending.abort(new Error('given up'))
      throw new Error('aborted')
    }
    const graded = grade(readGrader(SCORE), { item: { n: 1 }, sample: toSample('') }, { ask, signal: ending.signal })
    await expect(graded).rejects.toThrow('given up')
  })
})

it('a model of ours is held to bounds, which a teacher is not told of', async () => {
  const { ask, requests } = scripted('{"result":1}', '{"label":"good"}')
  await run(SCORE, ask)
  await run(LABEL, ask)
  const [score, label] = requests as [ModelRequest, ModelRequest]
  expect(JSON.stringify(score)).not.toMatch(/maxItems|maxLength/)
  const bounded = withBounds(score)
  expect(JSON.stringify(bounded)).toMatch(/"maxLength":80.*"maxItems":1/)
  // a step has two texts, and a token is a character at least: what a limit of tokens leaves room for
  const within = (tokens: number) => JSON.stringify(withBounds({ ...score, max_completion_tokens: tokens }))
  expect(within(40)).toMatch(/"maxLength":0.*"maxItems":0/)
  expect(within(2000)).toMatch(/"maxLength":160.*"maxItems":3/)
  expect(bounded).toEqual({ ...score, response_format: bounded.response_format })
  expect(withBounds(label)).toBe(label)
})

describe('label_model', () => {
  it.each([
    ['{"label":"good"}', 1],
    ['{"label":"bad"}', 0],
  ])('%s is %d', async (answer, reward) => {
    const { ask, requests } = scripted(answer)
    expect(await run(LABEL, ask)).toMatchObject({ reward, errors: [] })
    expect(requests[0]?.response_format).toMatchObject({
      json_schema: { schema: { properties: { label: { enum: ['good', 'bad'] } } } },
    })
  })

  it('another label is unreadable', async () => {
    expect(await run(LABEL, scripted('{"label":"great"}', '{}').ask)).toMatchObject({
      errors: [{ flag: 'model_grader_parse_error' }],
    })
  })
})

describe('what is refused', () => {
  it.each([
    [{ ...LABEL, passing_labels: ['great'] }, 'grader.passing_labels'],
    [{ ...SCORE, range: [1, 0] }, 'grader.range'],
    [{ ...SCORE, input: 'text' }, 'grader.input'],
    [
      { ...SCORE, input: [{ role: 'user', content: { type: 'input_image', image_url: 'x' } }] },
      'grader.input[0].content',
    ],
    [{ ...SCORE, sampling_params: { top_k: 1 } }, 'grader.sampling_params.top_k'],
  ])('%o at %s', (spec, param) => {
    expect(() => readGrader(spec)).toThrow(expect.objectContaining({ param }))
  })
})

it('gradeWith is a part of combined rewards', async () => {
  const right = {
    type: 'string_check',
    name: 'right',
    input: '{{sample.output_text}}',
    reference: '{{item.answer}}',
    operation: 'eq',
  }
  const multi = {
    type: 'multi',
    name: 'all',
    graders: { right, judge: { ...SCORE, input: LABEL.input } },
    calculate_output: 'right + judge',
  }
  const { ask } = scripted('{"result":6}')
  const reward = combineRewards<JsonObject>({ grade: { weight: 0.5, reward: gradeWith(multi, { models: ask }) } })
  const trajectory = new Trajectory([{ role: 'user', content: '2+2?' }])
  trajectory.record({
    choices: [{ index: 0, message: { role: 'assistant', content: '4', tool_calls: [] }, finish_reason: 'stop' }],
  } as never)
  expect(await reward(trajectory, { answer: '4' })).toBe(3.5)
  expect(trajectory.metrics).toEqual({ 'reward/right': 1, 'reward/judge': 6, grader_errors: 0, grade: 7 })
})
