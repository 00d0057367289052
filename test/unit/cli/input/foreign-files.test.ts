/**
 * Training files of other trainers: `trainyard train` converts what is plain before anything is sent, and refuses the rest with what to do;
 * `train rl` and `rollout` say what a row is, and ask what it asks.
 */
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { readPrompts } from '#plugins/rollout/prompt-file.js'
import { checkConversations } from '../../../../src/cli/input/conversation-file.js'
import { readTrainingRows } from '../../../../src/cli/input/convert-file.js'
import { readTrajectoryFile } from '../../../../src/cli/input/trajectory-file.js'
import { createIo } from '../../../../src/cli/terminal/io.js'
import { runCli } from '../../../support/service/run-cli.js'
import { MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

const row = '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}'
const shareGpt = '{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}'
const alpaca = '{"instruction":"Add.","input":"1+1","output":"2"}'
const array = JSON.stringify([JSON.parse(row), JSON.parse(shareGpt)], null, 2)
const [good, bad] = [true, false].map((label) => JSON.stringify({ prompt: 'q', completion: 'a', label }))

function ioWith(text: string) {
  const sink = { isTTY: false, write: () => true }
  return createIo({ stdin: Readable.from([Buffer.from(text)]), stdout: sink, stderr: sink }, false, {})
}

describe('train', () => {
  test.each([
    ['sft', `${row}\n${shareGpt}`, '1 row, each a conversation; 1 row, each a ShareGPT row'],
    ['sft', alpaca, '1 row, each an Alpaca row'],
    ['sft', array, '1 row, each a conversation; 1 row, each a ShareGPT row'],
    [
      'dpo',
      '{"question":"q","chosen":"a","rejected":"b"}',
      '1 row, each a preference row whose prompt has another name',
    ],
  ])('%s converts %s and says so', async (kind, stdin, said) => {
    const service = scriptedService({ 'GET /v1/preview/models': { body: page([MODEL]) } })
    const argv = ['train', kind, 'email-agent', '--file', '-', '--dry-run']
    const { stderr, exitCode } = await runCli(argv, { fetch: service.fetch, stdin })
    expect(stderr).toContain(`Converted standard input: ${said}`)
    expect(exitCode).toBe(0)
  })

  test('sends the converted rows, and those that need none as they are', async () => {
    const reader = { kind: 'conversation', check: checkConversations } as const
    const { data, facts } = await readTrainingRows(new Blob([array]), 'f', reader)
    expect(await data.text()).toBe(`${row}\n${row}\n`)
    expect(facts).toEqual({ rowCount: 2, assistantTurnCount: 2 })
    const own = new Blob([`\n${row}`])
    expect(await readTrainingRows(own, 'f', reader)).toMatchObject({ data: own, converted: null })
  })

  test.each([
    ['sft', `${good}\n${bad}`, ':1: is a KTO row', 'keep the good ones: trainyard data convert'],
    ['sft', `${row}\n{"text":"Once."}`, ':2: is a row of plain text', 'say who says what'],
    ['sft', `${shareGpt}\n{"messages":[]}`, '(converted):2: messages: must be an array', 'trainyard help files'],
    [
      'dpo',
      row,
      ':1: is a conversation without a preference, expected prompt, chosen and rejected',
      'trainyard train sft',
    ],
  ])('%s of %s is refused', async (kind, stdin, problem, hint) => {
    const service = scriptedService({})
    const { stderr, exitCode } = await runCli(['train', kind, 'email-agent', '--file', '-'], {
      fetch: service.fetch,
      stdin,
    })
    expect(stderr).toContain(`standard input${problem.startsWith(':') ? '' : ' '}${problem}`)
    expect(stderr).toContain(`hint: `)
    expect(stderr).toContain(hint)
    expect([exitCode, service.requests]).toEqual([2, []])
  })

  test.each([
    [shareGpt, 'is a ShareGPT row (conversations of from and value), expected trajectory groups'],
    [row, 'is a conversation, expected trajectory groups'],
    ['{"question":"q","answer":"a"}', 'is a question and its answer by other names'],
    ['{"prompt":"q","answer":"a"}', 'is a prompt, expected trajectory groups'],
  ])('rl says what %s is', async (text, message) => {
    const refused = readTrajectoryFile('-', ioWith(text))
    await expect(refused).rejects.toThrow(message)
    await expect(refused).rejects.toMatchObject({ hint: expect.stringContaining('trainyard rollout') })
  })
})

test('train and rollout read a table, and KTO stays what it is where it is asked for', async () => {
  const read = async (argv: readonly string[], stdin: string) => {
    const service = scriptedService({ 'GET /v1/preview/models': { body: page([MODEL]) } })
    return await runCli(['train', ...argv, '--file', '-', '--dry-run'], { fetch: service.fetch, stdin })
  }
  const sft = await read(['sft', 'email-agent'], 'question,answer\n1+1,2\n2+2,4\n')
  expect([sft.exitCode, sft.stdout]).toEqual([0, expect.stringContaining('2 conversations')])
  const table = 'prompt,completion,label\nq,a,True\nq,b,False\n'
  const kto = await read(['dpo', 'email-agent', '--loss-type', 'kto'], table)
  expect([kto.exitCode, kto.stdout]).toEqual([0, expect.stringContaining('2 answers')])
  const plain = await read(['dpo', 'email-agent'], table)
  expect([plain.exitCode, plain.stderr]).toEqual([2, expect.stringContaining('--loss-type kto --file')])
  const prompts = await readPrompts('-', ioWith('text;label\n"Hi; you";greeting\n'))
  expect(prompts).toEqual([
    { messages: [{ role: 'user', content: 'Hi; you' }], row: { prompt: 'Hi; you', answer: 'greeting' } },
  ])
})

test.each([
  ['a prompt', '{"prompt":"Hi","answer":"Hello","id":1}'],
  ['a row of prompt and completion', '{"prompt":"Hi","completion":"Hello"}'],
  ['a conversation', row],
  ['ShareGPT', shareGpt],
  ['one JSON array', JSON.stringify([{ question: 'Hi', answer: 'Hello' }], null, 2)],
])('rollout asks what %s asks, and compares with its answer', async (_name, text) => {
  const prompts = await readPrompts('-', ioWith(text))
  expect(prompts).toMatchObject([{ messages: [{ role: 'user', content: 'Hi' }], row: { answer: 'Hello' } }])
})

test('rollout takes a prompt in brackets, and a conversation to be gone on with, as they are', async () => {
  const started = { messages: [...(JSON.parse(row) as { messages: object[] }).messages], answer: 'x' }
  const prompts = await readPrompts('-', ioWith(`[is this one?]\n${JSON.stringify(started)}`))
  expect(prompts.map(({ messages }) => messages.length)).toEqual([1, 2])
})
