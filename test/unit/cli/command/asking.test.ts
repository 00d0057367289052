/** What is wrong with a command line is said before a person is asked for what it leaves out. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-asking-'))
const empty = join(folder, 'empty.jsonl')
writeFileSync(empty, '')
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

// No server runs, so a command that asks which model could only say that it reaches none (exit 6).
test.each([
  [['train', 'rl'], '--file with trajectory groups is required'],
  [['train', 'rl', '--file', join(folder, 'typo.jsonl')], 'does not exist'],
  [['train', 'rl', '--file', empty, '--plan', '--watch'], '--plan and --watch exclude each other'],
  [['train', 'sft'], '--file with example conversations is required'],
  [['train', 'sft', '--file', empty], 'holds no conversation'],
  [['train', 'dpo'], '--file with preference pairs is required'],
  [['train', 'dpo', '--file', join(folder, 'typo.jsonl')], 'does not exist'],
  [['log'], '--file with trajectory groups is required'],
  [['rollout'], '--prompts with what to ask is required'],
  [['eval', '--prompts', join(folder, 'typo.txt')], 'does not exist'],
  [['checkpoints', 'delete', '--steps', '1', '--keep', 'latest', '--yes'], 'either --steps or --keep'],
])('%j at a terminal', async (argv, message) => {
  const { stderr, exitCode } = await runCli(argv, { tty: true, columns: 200 })
  expect(stderr).toContain(message)
  expect(exitCode).toBe(2)
})

test.each([
  ['train', 'rl', '--file', empty],
  ['train', 'dpo', '--file', empty],
])('%s %s in a pipe names the argument that is missing, and reads nothing', async (...argv) => {
  const { stderr, exitCode } = await runCli(argv)
  expect(stderr).toContain('missing required argument "model"')
  expect(exitCode).toBe(2)
})
