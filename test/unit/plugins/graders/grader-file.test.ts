/** `--grader` of `rollout`, `eval` and `train rl --prompts`, and `grader check`: what a file earns, what is said of errors, what is refused. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runCli, unreachable } from '../../../support/service/run-cli.js'
import { checkpoint, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-grader-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

const file = (name: string, text: string) => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const ROWS = '{"prompt":"2+2?","answer":"4","price":5.0}\n{"prompt":"3+3?","answer":"6"}\n'
const RIGHT = {
  type: 'string_check',
  name: 'right',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
  operation: 'eq',
}
const PRICE = { ...RIGHT, name: 'price', input: '{{item.price}}', reference: '5.0' }
const MULTI = { type: 'multi', graders: { right: RIGHT, price: PRICE }, calculate_output: '2 * right + price' }

/** Answers 4 to everything. */
async function run(argv: readonly string[]) {
  const message = { role: 'assistant', content: '4', tool_calls: [] }
  const choices = [{ index: 0, message, finish_reason: 'stop', token_ids: [9] }]
  const routes: Routes = {
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: { body: page([checkpoint(3)], true) },
    'POST /v1/chat/completions': { body: { choices, prompt_token_ids: [1] } },
    [`POST /v1/preview/models/${MODEL.id}/log`]: { body: { metrics: { 'val/reward': 0.5 } } },
  }
  const service = scriptedService(routes)
  return { ...(await runCli(argv, { fetch: service.fetch })), requests: service.requests }
}

describe('--grader', () => {
  const line = (command: string, spec: object, more: readonly string[] = []) => [
    ...[command, 'email-agent', '--prompts', file('p.jsonl', ROWS)],
    ...['--grader', file('g.json', JSON.stringify(spec)), ...more],
  ]

  test('rollout: parts are metrics, numbers stand as they were written, an error earns 0 and is said by its name', async () => {
    const { stdout, stderr, exitCode } = await run(line('rollout', MULTI, ['-n', '1']))
    expect(exitCode).toBe(0)
    const trajectories = stdout
      .trim()
      .split('\n')
      .flatMap((each) => JSON.parse(each).trajectories as { reward: number; metrics: object; logs: string[] }[])
    expect(trajectories.map(({ reward, metrics }) => ({ reward, metrics }))).toEqual([
      { reward: 3, metrics: { 'reward/right': 1, 'reward/price': 1, grader_errors: 0 } },
      { reward: 0, metrics: { 'reward/right': 0, 'reward/price': 0, grader_errors: 1 } },
    ])
    const said = 'grader price: invalid_variable_error: {{ item.price }} is not in the row, or null'
    expect(trajectories[1]?.logs).toEqual([said])
    expect(stderr).toContain(`in 1 of 2 answers (1 invalid_variable_error), the first: ${said}`)
  })

  test('eval: a grader of one number has a range, is named, and stays in the next command', async () => {
    const { stdout, stderr, exitCode, requests } = await run(line('eval', RIGHT))
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/^Reward 0\.5 \(\S*g\.json; 95%/)
    expect(stderr).toMatch(/50% of what can be earned.*\n.*--grader \S*g\.json/s)
    const logged = requests.find(({ path }) => path.endsWith('/log'))?.body as { readonly trajectory_groups: object[] }
    expect(logged.trajectory_groups[0]).toMatchObject({ min_reward: 0, max_reward: 1 })
  })

  test.each([
    ['no JSON', '{', [], /g\.json: not valid JSON/],
    [
      'an unknown field',
      { ...RIGHT, refrence: '' },
      [],
      /grader\.refrence: is no field.*\nhint: did you mean reference/,
    ],
    ['a kind that is not here', { ...RIGHT, type: 'regex' }, [], /grader\.type: expected/],
    ['a path that no row has', { ...RIGHT, reference: '{{item.answr}}' }, [], /no row of \S*p\.jsonl has item\.answr/],
    ['a formula', { ...MULTI, calculate_output: 'wrong' }, [], /no grader is called wrong; there are right, price/],
    ['a reward beside it', RIGHT, ['--reward', 'exact'], /--reward and --grader both say/],
    ['another range', RIGHT, ['--reward-range', '0,10'], /--reward-range says 0 to 10/],
  ])('refuses %s before anything is asked', async (_, spec, more, words) => {
    const argv = line('rollout', {}, more)
    file('g.json', typeof spec === 'string' ? spec : JSON.stringify(spec))
    const { stderr, exitCode, requests } = await run(argv)
    expect([exitCode, requests.length]).toEqual([2, 0])
    expect(stderr).toMatch(words)
  })

  test('train rl takes it beside --prompts only', async () => {
    const argv = ['train', 'rl', 'email-agent', '--file', file('g.jsonl', ''), '--grader', file('g.json', '{}')]
    const { stderr, exitCode } = await run(argv)
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('--grader is for --prompts only')])
  })
})

describe('grader check', () => {
  const check = (spec: object, ...argv: readonly string[]) =>
    runCli(['grader', 'check', file('g.json', JSON.stringify(spec)), ...argv], { fetch: unreachable })

  test('says the reward and its parts', async () => {
    const item = ['--item', '{"answer":"4","price":5.0}', '--sample', '4']
    const { stdout, exitCode } = await check(MULTI, ...item)
    expect([exitCode, stdout]).toEqual([0, 'Reward 3 (multi)\n  right 1\n  price 1\n'])
    const json = JSON.parse((await check(MULTI, ...item, '--json')).stdout)
    expect(json).toMatchObject({ reward: 3, sub_rewards: { right: 1, price: 1 }, metadata: { type: 'multi' } })
  })

  test('says what a grader erred at, exit 1', async () => {
    const { stdout, stderr, exitCode } = await check(RIGHT, '--sample', '4')
    expect([exitCode, stdout]).toEqual([1, 'Reward 0 (right)\n'])
    expect(stderr).toContain('the grader right erred: {{ item.answer }} is not in the row, or null')
  })

  test('takes an answer that calls tools, and reads a grader alone', async () => {
    const calls = [{ type: 'function', function: { name: 'look', arguments: '{}' } }]
    const chat = JSON.stringify({ choices: [{ message: { content: null, tool_calls: calls } }] })
    const spec = { ...RIGHT, input: '{{sample.output_tools[0].function.name}}', reference: 'look' }
    expect((await check(spec, '--sample-json', chat)).stdout).toBe('Reward 1 (right)\n')
    expect((await check(spec)).stdout).toBe('right is a grader of the kind string_check\n')
    expect((await check(spec, '--item', '[1]', '--sample', 'x')).stderr).toContain(
      '--item must be a JSON object, got [1]',
    )
  })

  test('--agreement compares with what people said: correlation, share of the same, and the lines that are farthest apart', async () => {
    const row = (sample: string, score: number) => JSON.stringify({ item: { answer: '4' }, sample, score })
    const right = [row('4', 1), row('4', 1), row('5', 0), row('4', 0), row('5', 0), row('x', 0)]
    const agreement = file('scored.jsonl', `${right.join('\n')}\n\n`)
    const json = JSON.parse((await check(RIGHT, '--agreement', agreement, '--json')).stdout)
    // phi of the table 2, 1, 0, 3 is 6 / sqrt(2 * 4 * 3 * 3)
    expect(json).toMatchObject({
      ...{ object: 'grader.agreement', rows: 6, errors: 0, farthest: [{ line: 4, score: 0, reward: 1 }] },
      same: { value: 5 / 6 },
      pearson: { value: expect.closeTo(6 / Math.sqrt(72), 12), interval: [expect.any(Number), expect.any(Number)] },
      mean_difference: expect.closeTo(1 / 6, 12),
    })
    const { stdout } = await check(RIGHT, '--agreement', agreement)
    expect(stdout).toContain('6 rows')
    expect(stdout).toMatch(/spearman 0\.707\d*, 95% /)
    expect(stdout).toContain('line 4: 0 by people, 1 by the grader')
  })

  test.each([
    ['{"sample":"4"}', /scored.jsonl:1: "score" must be a number/],
    ['{"score":1}', /scored.jsonl:1: "sample" must be a text/],
    ['nothing', /scored.jsonl:1: is no JSON object/],
    ['{"sample":"4","score":1}', /has 1 rows, expected 4 to 10000/],
  ])('--agreement refuses %s', async (line, words) => {
    const { stderr, exitCode } = await check(RIGHT, '--agreement', file('scored.jsonl', line))
    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(words)])
  })

  test('--agreement beside an answer, and --teacher without a grader, are refused', async () => {
    const both = await check(RIGHT, '--agreement', file('scored.jsonl', ''), '--sample', '4')
    expect([both.exitCode, both.stderr]).toEqual([2, expect.stringContaining('--agreement has rows')])
    const alone = await run([
      'eval',
      'email-agent',
      '--prompts',
      file('p.jsonl', ROWS),
      '--teacher',
      'a=http://127.0.0.1:9',
    ])
    expect([alone.exitCode, alone.stderr]).toEqual([2, expect.stringContaining('there is no --grader')])
  })

  test('a teacher of --teacher answers a grader that asks a model, with its key', async () => {
    const seen: unknown[] = []
    const server = createServer(async (request, response) => {
      for await (const _ of request);
      seen.push(request.url, request.headers.authorization)
      const message = { role: 'assistant', content: '{"steps":[],"result":0.75}' }
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ choices: [{ message }] }))
    }).listen(0, '127.0.0.1')
    try {
      await new Promise((resolve) => server.once('listening', resolve))
      const { port } = server.address() as AddressInfo
      const judge = {
        type: 'score_model',
        model: 'judge',
        input: [{ role: 'user', content: '{{sample.output_text}}' }],
      }
      const argv = ['grader', 'check', file('g.json', JSON.stringify(judge)), '--sample', '4']
      const teacher = ['--teacher', `judge=http://127.0.0.1:${port}/v1,JUDGE_KEY`]
      const { stdout } = await runCli([...argv, ...teacher], { fetch: unreachable, env: { JUDGE_KEY: 'secret' } })
      expect(stdout).toBe('Reward 0.75 (score_model)\n')
      expect(seen).toEqual(['/v1/chat/completions', 'Bearer secret'])
    } finally {
      server.close()
    }
  })
})
