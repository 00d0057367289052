/** Training files of other trainers are refused by `trainyard train` before anything is sent, with what to do about them. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { scriptedService } from '../../../support/service/scripted-service.js'

const row = '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}'

test.each([
  [
    'sft',
    `${row}\n{"conversations":[{"from":"human","value":"What is tea?"},{"from":"gpt","value":"A drink."}]}`,
    'standard input:2: is a ShareGPT row (conversations of from and value), expected messages, or prompt and completion',
    'convert it: trainyard data convert rows.jsonl converted.jsonl --to sft',
  ],
  [
    'sft',
    '{"instruction":"Add.","input":"1+1","output":"2"}',
    'standard input:1: is an Alpaca row (instruction, input and output), expected messages, or prompt and completion',
    'convert it: trainyard data convert rows.jsonl converted.jsonl --to sft',
  ],
  [
    'sft',
    JSON.stringify([JSON.parse(row), JSON.parse(row)], null, 2),
    'standard input is one JSON array, expected JSON Lines: one object a line',
    'convert it: trainyard data convert rows.json converted.jsonl',
  ],
  [
    'dpo',
    row,
    'standard input:1: is a conversation without a preference, expected prompt, chosen and rejected',
    'conversations train in supervised jobs (trainyard train sft',
  ],
])('train %s of %s', async (kind, stdin, problem, hint) => {
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(['train', kind, 'email-agent', '--file', '-'], {
    fetch: service.fetch,
    stdin,
  })
  const lines = stderr.trimEnd().split('\n')
  expect(lines).toHaveLength(2)
  expect(lines[0]).toContain(problem)
  expect(lines[1]).toContain(hint)
  expect([exitCode, service.requests]).toEqual([2, []])
})
