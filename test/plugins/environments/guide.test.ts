/**
 * The examples of the guide, one of each kind, against a real service; what they reach is a stand-in, the lines are the
 * guide's.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { splitWords } from '#plugins/environments/sources/words.js'
import { type LocalService, openEnvironment, startLocal, TrainableModel } from '../../../src/rl.js'
import { runCli } from '../../support/service/run-cli.js'
import { startFakeOpenEnv } from './support/fake-openenv.js'

const BASE = 'trainyard/tiny-random'
const GUIDE = readFileSync(join(import.meta.dirname, '../../../src/docs/guides/environments.md'), 'utf8')
const support = join(import.meta.dirname, 'support')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-env-guide-'))
const python = join(support, 'fake-python.js')
let local: LocalService

beforeAll(async () => {
  local = await startLocal({ baseModels: [BASE], logger: createLogger({ level: 'silent' }) })
  await new TrainableModel(local.client, { name: 'my-model', baseModel: BASE }).register()
})
afterAll(async () => {
  await local.close()
  rmSync(folder, { recursive: true, force: true })
})

const blockOf = (language: string, part: string): string => {
  const found = [...GUIDE.matchAll(/```(\w+)\n(.*?)```/gs)].find(
    ([, kind, text]) => kind === language && text?.includes(part),
  )
  if (found?.[2] === undefined) throw new Error(`the guide has no ${language} with ${part}`)
  return found[2]
}
/** A line of the guide as words, with what is not there replaced. */
const lineOf = (part: string): readonly string[] => {
  const line = GUIDE.split(/[\n`]/).find((each) => each.startsWith('trainyard env') && each.includes(part))
  return splitWords(line ?? '').slice(1)
}
const SHORT = [
  '--tasks-per-step',
  '2',
  '-n',
  '2',
  '--eval-every',
  '0',
  '--eval-tasks',
  '2',
  '--max-tokens',
  '4',
  '--json',
]
const env = () => ({ TRAINYARD_URL: local.url, TRAINYARD_API_KEY: local.apiKey })
async function run(words: readonly string[], rest: readonly string[]) {
  const { exitCode, stdout, stderr } = await runCli([...words, ...rest], { env: env(), fetch: globalThis.fetch })
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  const lines = stdout.trim().split('\n')
  return JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>
}
const steps = (count: number, name: string) => [...SHORT, '--steps', String(count), '--out', join(folder, name)]

test('reasoning-gym is checked, measured and trained in', async () => {
  const checked = await run(
    lineOf('env check').filter((word) => word !== '--install'),
    ['--python', python, '--json'],
  )
  expect(checked).toMatchObject({ name: 'reasoning-gym:letter_counting' })
  const measured = await run(lineOf('env eval'), [
    '--python',
    python,
    '--tasks',
    '2',
    '--max-tokens',
    '4',
    '--split',
    'gym',
    '--json',
  ])
  expect(measured).toMatchObject({ object: 'environment_eval', groups: 2 })
  const trained = await run(lineOf('env train reasoning-gym'), [...steps(1, 'gym'), '--python', python])
  expect(trained).toMatchObject({ object: 'environment_training', points: [{ step: 0 }, { step: 1 }] })
})

test('a server of the OpenEnv kind is trained in', async () => {
  const server = await startFakeOpenEnv('text')
  try {
    const words = lineOf('openenv:').map((word) => word.replace('http://127.0.0.1:8000', server.url))
    expect(
      await run(
        words.filter((word) => word !== '--steps' && word !== '20'),
        steps(1, 'openenv'),
      ),
    ).toMatchObject({
      points: [{ step: 0 }, { step: 1 }],
    })
    expect(server.seen.mostOpen).toBe(1)
  } finally {
    await server.close()
  }
})

test('an MCP server is trained in, by the row of the guide', async () => {
  const row = blockOf('json', '"call"')
  const asks = join(folder, 'asks.jsonl')
  writeFileSync(
    asks,
    row + row.replaceAll('2', '4') + row.replaceAll('3', '1') + row.replaceAll('2+3', 'two and three'),
  )
  const words = lineOf('mcp:').map((word) =>
    word.replace('https://tools.example/mcp', `"${process.execPath}" "${join(support, 'mcp-server.js')}"`),
  )
  const flags = ['--set', 'tools=add', '--set', 'tool_choice=required', '--max-turns', '1']
  const rest = [
    ...steps(1, 'mcp').filter((word) => word !== '--max-tokens' && word !== '4'),
    ...flags,
    '--max-tokens',
    '40',
  ]
  const trained = await run(
    words.map((word) => (word === 'asks.jsonl' ? asks : word)),
    rest,
  )
  expect(trained).toMatchObject({ points: [{ step: 0 }, { step: 1 }] })
})

test('a file of one’s own is trained in, and opened by a program', async () => {
  const own = join(folder, 'sums.mjs')
  writeFileSync(own, blockOf('js', 'sums.mjs'))
  const words = lineOf('./sums.mjs').map((word) => (word === './sums.mjs' ? own : word))
  expect(await run(words, steps(1, 'own'))).toMatchObject({ points: [{ step: 0 }, { step: 1 }] })
  const sums = await openEnvironment(own)
  expect((await sums.tasks('train', 0, 2)).map(({ facts }) => facts['answer'])).toEqual(['2', '4'])
})
