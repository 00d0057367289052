/**
 * Python graders of the command line: they run here, without a server and its flag; what is wrong is said before prompts are
 * sampled.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gradeWith } from '#plugins/graders/grading/grade-with.js'
import { noWalls, PYTHON } from '../../support/python-walls.js'
import { runCli, unreachable } from '../../support/service/run-cli.js'

const wall = await noWalls()
let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-python-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const env = { ...process.env, TRAINYARD_PYTHON: PYTHON } as Record<string, string>
const python = (...lines: readonly string[]) => ({ type: 'python', name: 'mine', source: lines.join('\n') })
const NEAR = python('def grade(sample, item):', '  return 1 / (1 + abs(float(sample["output_text"]) - item["answer"]))')

describe.skipIf(wall !== null)('a grader in Python', () => {
  const check = (spec: object, ...argv: readonly string[]) =>
    runCli(['grader', 'check', file('g.json', JSON.stringify(spec)), ...argv], { fetch: unreachable, env })

  it('is tried on an answer', async () => {
    expect((await check(NEAR, '--item', '{"answer":4}', '--sample', '5')).stdout).toBe('Reward 0.5 (mine)\n')
    const { stderr, exitCode } = await check(NEAR, '--item', '{"answer":4}', '--sample', 'five')
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/grader mine erred: .*could not convert string to float/s),
    ])
  })

  it('is compiled, and not run, where there is no answer', async () => {
    expect((await check(NEAR)).exitCode).toBe(0)
    const { stderr, exitCode } = await check(python('def grade(sample):', '  return 1'))
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('called with two arguments')])
  })

  it('is refused before prompts are sampled', async () => {
    const prompts = file('p.jsonl', '{"prompt":"2+2?","answer":4}\n')
    const argv = [
      'rollout',
      'email-agent',
      '--prompts',
      prompts,
      '--grader',
      file('g.json', JSON.stringify(python('x = 1'))),
    ]
    const { stderr, exitCode } = await runCli(argv, { fetch: unreachable, env })
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('no function grade(sample, item)')])
  })

  it('is compared with people', async () => {
    const rows = [1, 2, 3, 4, 5, 6].map((n) =>
      JSON.stringify({ item: { answer: 6 }, sample: String(n), score: n / 10 }),
    )
    const { stdout } = await check(NEAR, '--agreement', file('scored.jsonl', rows.join('\n')), '--json')
    expect(JSON.parse(stdout)).toMatchObject({ rows: 6, errors: 0, spearman: { value: 1 }, same: null })
  })

  it('is a reward of a program', async () => {
    const reward = gradeWith(NEAR, { python: PYTHON })
    const scored = { answer: '7', metrics: {} as Record<string, number>, logs: [] }
    expect(await reward(scored as never, { answer: 4 })).toBe(0.25)
    expect(scored.metrics['grader_errors']).toBe(0)
  })
})
