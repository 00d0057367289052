/** `rollout` and `eval` against a scripted service: what is asked, how it is scored, what is written, how it ends. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { checkpoint, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-rollout-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

const ROWS = '{"prompt":"2+2?","answer":"4"}\n\n{"messages":[{"role":"user","content":"3+3?"}],"answer":6}\n'
const file = (name: string, text: string) => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

/** Answers 4 to everything; `fail` makes some requests fail. */
async function run(argv: readonly string[], { fail = () => false }: { fail?: (content: string) => boolean } = {}) {
  const routes: Routes = {
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: { body: page([checkpoint(3)], true) },
    'POST /v1/chat/completions': ({ body }) => {
      const { messages } = body as { messages: { content: string }[] }
      if (fail(messages.at(-1)?.content ?? '')) return { status: 400, body: { error: { message: 'too long' } } }
      const message = { role: 'assistant', content: '4', tool_calls: [] }
      return {
        body: { choices: [{ index: 0, message, finish_reason: 'stop', token_ids: [9] }], prompt_token_ids: [1] },
      }
    },
    [`POST /v1/preview/models/${MODEL.id}/log`]: { body: { metrics: { 'val/reward': 0.5 } } },
  }
  const service = scriptedService(routes)
  const result = await runCli(argv, { fetch: service.fetch })
  return { ...result, requests: service.requests }
}
const groupsOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { trajectories: { reward: number; metrics: object }[]; exceptions: unknown[] })
const rewardsOf = (text: string) => groupsOf(text).map(({ trajectories }) => trajectories.map(({ reward }) => reward))

describe('rollout', () => {
  test('--until-trainable asks on until so many groups differ and says how many were thrown away', async () => {
    // every fifth reward is 1: some groups of two differ, some do not
    const reward = file('r.mjs', 'let n = 0\nexport const reward = () => (n++ % 5 === 0 ? 1 : 0)\n')
    const line = ['rollout', 'email-agent', '--prompts', file('p.jsonl', ROWS), '-n', '2', '--reward', reward]
    const { stdout, stderr } = await run([...line, '--until-trainable', '3', '--concurrency', '1'])
    const groups = rewardsOf(stdout)
    expect(groups.length).toBeGreaterThanOrEqual(3)
    for (const rewards of groups) expect(new Set(rewards).size).toBe(2)
    const away = /rewards differ in \d+ of them; (\d+) groups? with equal rewards thrown away/.exec(stderr)
    expect(Number(away?.[1])).toBeGreaterThan(0)
    const refused = await run([...line, '--max-attempts', '9'])
    expect([refused.exitCode, refused.stderr]).toEqual([
      2,
      expect.stringContaining('--max-attempts bounds --until-trainable'),
    ])
  })
  test('--curriculum remembers what prompts earned, in a file that the next round goes on from, and draws so many of them', async () => {
    const rows = Array.from({ length: 12 }, (_, i) => `${JSON.stringify({ prompt: `question ${i}` })}\n`).join('')
    // of the twelve two are right now and then
    const reward = file(
      'r.mjs',
      'let n = 0\nexport const reward = (_, { prompt }) => (/ [37]$/.test(prompt) ? n++ % 2 : 0)\n',
    )
    const line = ['rollout', 'email-agent', '--prompts', file('p.jsonl', rows), '-n', '2', '--reward', reward]
    const kept = join(folder, 'kept.json')
    const flags = [
      '--curriculum',
      kept,
      '--pick',
      '4',
      '--concurrency',
      '1',
      '--seed',
      '5',
      '--json',
      '--out',
      join(folder, 'g'),
    ]
    const rounds: { groups: number; curriculum: object }[] = []
    for (let round = 0; round < 4; round += 1) {
      rounds.push(JSON.parse((await run([...line, ...flags])).stdout) as (typeof rounds)[number])
    }
    expect(rounds.map(({ groups }) => groups)).toEqual([4, 4, 4, 4])
    // the first three rounds hold each prompt once: those that are right now and then are found and asked again
    expect(rounds.at(-1)?.curriculum).toMatchObject({ between: 2, above: 0 })
    const last = await run([...line, ...flags.filter((flag) => flag !== '--json')])
    expect(last.stderr).toMatch(/Of 12 prompts 2 are right now and then, \d+ seldom, 0 mostly, \d+ not asked yet/)
    expect(readFileSync(join(folder, 'g'), 'utf8')).toContain('question 3')
    expect(readFileSync(join(folder, 'g'), 'utf8')).toContain('question 7')
    for (const [wrong, said] of [
      [['--pick', '4'], '--pick draws prompts by a curriculum, which is not given'],
      [['--curriculum', kept], '--curriculum needs --pick or --until-trainable, and one of them'],
      [['--curriculum', join(folder, 'p.jsonl'), '--pick', '2'], 'is no curriculum'],
    ] as const) {
      const refused = await run([...line, ...wrong])
      expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining(said)])
    }
  })
  const argv = () => ['rollout', 'email-agent', '--prompts', file('p.jsonl', ROWS), '-n', '2']
  test('asks every prompt n times with ids and log-probabilities and compares with the answer', async () => {
    const { stdout, stderr, requests } = await run([...argv(), '--system', 'short', '--seed', '1'])
    expect(rewardsOf(stdout)).toEqual([
      [1, 1],
      [0, 0],
    ])
    expect(stderr).toContain('2 groups, 4 trajectories, reward 0.5; rewards differ in 0 of them')
    const bodies = requests.filter(({ method }) => method === 'POST').map(({ body }) => body as { seed: number })
    expect(bodies[0]).toMatchObject({
      logprobs: true,
      return_token_ids: true,
      messages: [{ role: 'system' }, { role: 'user' }],
    })
    expect(new Set(bodies.map(({ seed }) => seed)).size).toBe(4)
  })
  test('a row of a supervised job has its completion as the answer', async () => {
    const rows = file('pairs.jsonl', '{"prompt":"2+2?","completion":"4"}\n')
    const { stdout } = await run(['rollout', 'email-agent', '--prompts', rows, '-n', '2'])
    expect(rewardsOf(stdout)).toEqual([[1, 1]])
  })
  test('--out writes a file that train rl reads', async () => {
    const out = join(folder, 'groups.jsonl')
    const { stdout } = await run([...argv(), '--reward', 'contains', '--out', out, '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ groups: 2, trajectories: 4, exceptions: 0, file: out })
    expect(rewardsOf(readFileSync(out, 'utf8'))).toHaveLength(2)
  })
  test('a reward of one’s own: a module, or a program', async () => {
    const module = file(
      'reward.mjs',
      'export const reward = (answer, row) => ({ reward: Number(answer) / Number(row.answer), metrics: { seen: 1 } })',
    )
    const byModule = await run([...argv(), '--reward', module])
    expect(rewardsOf(byModule.stdout)[1]?.[0]).toBeCloseTo(2 / 3)
    expect(groupsOf(byModule.stdout)[0]?.trajectories[0]?.metrics).toEqual({ seen: 1 })
    const program = file(
      'score.mjs',
      'let t = ""; for await (const c of process.stdin) t += c; console.log(JSON.parse(t).row.answer == 4 ? 1 : 0.25)',
    )
    const byProgram = await run([...argv(), '--reward', `${process.execPath} ${program}`])
    expect(rewardsOf(byProgram.stdout)).toEqual([
      [1, 1],
      [0.25, 0.25],
    ])
  })
  test('failed rollouts are exceptions and a warning; when all fail it is exit 2 with the reason', async () => {
    const some = await run(argv(), { fail: (content) => content === '3+3?' })
    expect(some.exitCode).toBe(0)
    expect(some.stderr).toContain('warning: 2 rollouts failed, the first one: too long')
    // a group of failures only counts in the job's exception rate
    expect(rewardsOf(some.stdout)).toEqual([[1, 1], []])
    const all = await run(argv(), { fail: () => true })
    expect(all).toMatchObject({ exitCode: 2, stdout: '' })
    expect(all.stderr).toContain('no answer came: too long')
    const broken = await run([...argv(), '--reward', `${process.execPath} -e 0`])
    expect(broken.stderr).toContain('expected a number')
  })
  test.each([
    ['{"prompt":1}\n{nope\n', /p\.jsonl:1: must have "prompt".*\n.*p\.jsonl:2: not valid JSON/s],
    ['\n', /holds no prompt/],
    ['{"trajectories":[]}\n', /p\.jsonl:1: is a trajectory group, which trainyard train rl trains on/],
  ])('a bad file is exit 2 before anything is asked: %j', async (text, message) => {
    const { stderr, exitCode, requests } = await run(['rollout', 'email-agent', '--prompts', file('p.jsonl', text)])
    expect({ exitCode, requests }).toEqual({ exitCode: 2, requests: [] })
    expect(stderr).toMatch(message)
  })
  test('a reward that only fails ends the run before every prompt is asked', async () => {
    const many = file('many.jsonl', ROWS.repeat(40))
    const { stderr, exitCode, requests } = await run([
      ...['rollout', 'email-agent', '--prompts', many, '-n', '4', '--concurrency', '4', '--retries', '0'],
      ...['--reward', 'exit 3'],
    ])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('no reward came for the first 8 answers: exit 3: ended with 3')
    expect(requests.filter(({ path }) => path.endsWith('/completions')).length).toBeLessThan(40)
  })
  test('rows without an answer are refused before anything is asked, unless the reward is one of yours', async () => {
    const bare = file('bare.jsonl', '{"prompt":"a","answer":"b"}\n{"prompt":"c"}\n')
    const { stderr, exitCode, requests } = await run(['rollout', 'email-agent', '--prompts', bare])
    expect({ exitCode, requests }).toEqual({ exitCode: 2, requests: [] })
    expect(stderr).toContain('prompt 2 has no "answer" to compare with')
    expect((await run(['rollout', 'email-agent', '--prompts', bare, '--reward', 'echo 1'])).exitCode).toBe(0)
  })
  test('what a reward can be is said by what is built in, the module or the flag, and groups carry it', async () => {
    const boundsOf = (text: string) =>
      (groupsOf(text) as { min_reward?: number; max_reward?: number }[]).map((each) => [
        each.min_reward,
        each.max_reward,
      ])
    expect(boundsOf((await run(argv())).stdout)[0]).toEqual([0, 1])
    const ten = file('ten.mjs', 'export const reward = () => 10\nexport const range = [0, 10]\n')
    const byModule = await run([...argv(), '--reward', ten])
    expect(boundsOf(byModule.stdout)[0]).toEqual([0, 10])
    expect(byModule.stderr).not.toContain('--reward-range')
    const bare = file('bare.mjs', 'export const reward = () => -0.5\n')
    expect(boundsOf((await run([...argv(), '--reward', bare])).stdout)[0]).toEqual([undefined, undefined])
    const said = await run([...argv(), '--reward', bare, '--reward-range', '-1,0'])
    expect(boundsOf(said.stdout)[0]).toEqual([-1, 0])
    const outside = await run([...argv(), '--reward', ten, '--reward-range', '0,10', '--retries', '0'])
    expect(outside.exitCode).toBe(0)
    const wrong = await run([...argv(), '--reward', bare, '--reward-range', '0,1', '--retries', '0'])
    expect(wrong.stderr).toContain('a reward of -0.5 lies outside of its range, 0 to 1')
  })
  test.each([
    [['--reward-range', '1,0'], 'the least and the most'],
    [['--reward-range', 'all'], 'the least and the most'],
    [['--reward-range', '0,5'], '--reward-range says 0 to 5, but exact is 0 to 1'],
  ])('%j is exit 2', async (flags, message) => {
    const { stderr, exitCode } = await run([...argv(), ...flags])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })
  test('a module whose range is none is named', async () => {
    const module = file('odd.mjs', 'export const reward = () => 1\nexport const range = 1\n')
    expect((await run([...argv(), '--reward', module])).stderr).toContain('export const range = [0, 1]')
  })
  test('a module without a reward is named', async () => {
    const { stderr, exitCode } = await run([...argv(), '--reward', file('empty.mjs', '')])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('must export a function "reward"')
  })
})

describe('eval', () => {
  const argv = () => ['eval', 'email-agent', '--prompts', file('p.jsonl', ROWS)]
  test('stores the means with the latest checkpoint', async () => {
    const { stdout, requests } = await run(argv())
    expect(stdout).toBe(
      'Reward 0.5 (exact; 95% between 0.0945 and 0.905) over 2 answers to 2 prompts, stored as val/reward of step 12\n',
    )
    expect(requests.at(-1)).toMatchObject({ path: `/v1/preview/models/${MODEL.id}/log`, body: { split: 'val' } })
  })
  test('shows the worst answers with what was asked and wanted, and writes all of them', async () => {
    const out = join(folder, 'answers.jsonl')
    const { stdout } = await run([...argv(), '--show', '1', '--out', out])
    expect(stdout).toMatch(/\n\n {2}asked {3}3\+3\?\n {2}said {4}4\n {2}wanted {2}6\n {2}reward {2}0\n$/)
    const lines = readFileSync(out, 'utf8').trim().split('\n')
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { messages: [{ role: 'user', content: '2+2?' }], answer: '4', reward: 1, row: { answer: '4' } },
      { answer: '4', reward: 0 },
    ])
    const { stdout: json } = await run([...argv(), '--show', '5', '--json'])
    expect(JSON.parse(json)).toMatchObject({ examples: [{ reward: 0 }, { reward: 1 }] })
  })
  test('where nothing got a reward it shows answers and advises examples, not the loop that cannot', async () => {
    const { stdout, stderr } = await run([...argv(), '--reward', 'echo 0'])
    expect(stdout.match(/asked/g)).toHaveLength(2)
    expect(stderr).toContain(
      'reward 0 everywhere: none of 2 answers got any, and what is never said cannot be rewarded',
    )
    expect(stderr).not.toContain('train rl')
  })
  test('an older step is only measured', async () => {
    const { stdout, requests } = await run(['eval', 'email-agent:step3', ...argv().slice(2), '--json'])
    expect(JSON.parse(stdout)).toMatchObject({ reward: 0.5, step: 3, is_stored: false })
    expect(requests.some(({ path }) => path.endsWith('/log'))).toBe(false)
    // the newest first, and no further page than the one that holds it
    const pages = requests.filter(({ path }) => path.endsWith('/checkpoints'))
    expect(pages.map(({ query }) => query.get('order'))).toEqual(['desc'])
  })
  test('a minimum is not passed by the answers that came when others failed', async () => {
    const part = { fail: (content: string) => content === '3+3?' }
    const gated = await run([...argv(), '--min-reward', '0.1'], part)
    expect(gated.exitCode).toBe(1)
    expect(gated.stderr).toMatch(/\d of \d answers failed, so the mean says nothing of the minimum of 0\.1/)
    expect((await run(argv(), part)).exitCode).toBe(0)
  })
  test('a reward below the minimum is exit 1, for CI', async () => {
    expect((await run([...argv(), '--min-reward', '0.5'])).exitCode).toBe(0)
    const { stderr, exitCode } = await run([...argv(), '--min-reward', '0.6'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('reward 0.5 is below the minimum of 0.6')
  })
})

describe('compare', () => {
  test('counts wins, ties and losses by prompt, says the interval of the paired difference, shows worst and best', async () => {
    const prompts = file('p.jsonl', Array.from({ length: 5 }, (_, i) => `{"prompt":"q${i}","at":${i}}\n`).join(''))
    // asked one after the other: five rewards of the first model, then five of the second
    const rewards = [0, 0.5, 1, 1, 0, 1, 1, 1, 0, 0]
    const reward = file(
      'r.mjs',
      `let n = 0\nconst rewards = ${JSON.stringify(rewards)}\nexport const reward = () => rewards[n++ % rewards.length]\n`,
    )
    const argv = [
      'compare',
      'email-agent:step3',
      'email-agent',
      '--prompts',
      prompts,
      '--reward',
      reward,
      '--concurrency',
      '1',
    ]
    const { stdout } = await run([...argv, '--json'])
    const result = JSON.parse(stdout) as { interval: [number, number]; worst: object[]; best: object[] }
    expect(result).toMatchObject({ prompts: 5, wins: 2, ties: 2, losses: 1, rewards: [0.5, 0.6] })
    // differences 1, 0.5, 0, -1, 0: mean 0.1, deviation 0.7416, Student's 2.776 (four degrees of freedom) times it by the square root of 5
    expect(result.interval[0]).toBeCloseTo(0.1 - (2.7764 * Math.sqrt(0.55)) / Math.sqrt(5), 3)
    expect(result.interval[1]).toBeCloseTo(0.1 + (2.7764 * Math.sqrt(0.55)) / Math.sqrt(5), 3)
    expect(result.worst).toMatchObject([{ rewards: [1, 0], second: { row: { at: 3 } } }])
    expect(result.best).toMatchObject([{ rewards: [0, 1] }, { rewards: [0.5, 1] }])
    const said = await run(argv)
    expect(said.stdout).toContain('email-agent against email-agent:step3 at 5 prompts: 2 wins, 2 ties, 1 loss\n')
    expect(said.stdout).toContain('(over prompts, paired): it may be chance')
    expect(said.stdout).toContain('  asked   q3\n  first   4\n  second  4\n  reward  1, 0')
  })
})
