/**
 * Files as people have them through `trainyard init FILE`: what each is called, and a folder that runs, or one clear sentence. Four are trained
 * to the last sentence of their program; a table of 100 MB stands in `test/nightly/large-table.test.ts`.
 */
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, test } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { cli, createHome } from '../support/service/cli-process.js'

const home = createHome()
afterAll(() => home.remove())
const SPARK = ['--base-model', 'trainyard/spark']
const run = promisify(execFile)
const table = (name: string): string => join(packageRoot(), 'test/fixtures/tables', name)

const COLOURS = ['red', 'green', 'blue', 'black']
const colour = (i: number): string => COLOURS[i % COLOURS.length] ?? ''
const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))
const lines = (rows: readonly unknown[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')
const essay = (i: number): string => `Box ${i} is ${colour(i)}. `.repeat(8).trim()

/** A file in a folder of its own, so that what is written beside it is found. */
async function put(name: string, content: string | Uint8Array): Promise<string> {
  const folder = join(home.path, name.replaceAll('.', '-'))
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, name), content)
  return join(folder, name)
}

const quoted = `\ufefftext;label\r\n${times(60, (i) => `"Der Tee ${i} war ${['schlecht', 'gut'][i % 2]}; ""wirklich"".";${['Tadel', 'Lob'][i % 2]}\r\n`).join('')}`
const FILES: readonly (readonly [what: string, name: string, content: string | Uint8Array, says: string])[] = [
  ['CSV with quotes and a mark, labels in German', 'tee.csv', quoted, '60 texts with 2 labels (Lob, Tadel)'],
  [
    'TSV',
    'sums.tsv',
    `question\tanswer\n${times(40, (i) => `${i}+1=\t${i + 1}\n`).join('')}`,
    '40 prompts with answers',
  ],
  [
    'one JSON array',
    'rows.json',
    JSON.stringify(times(40, (i) => ({ prompt: `${i}+1=`, completion: String(i + 1) }))),
    '40 prompts with answers',
  ],
  ['gzip', 'tee.csv.gz', gzipSync(quoted), '60 texts with 2 labels (Lob, Tadel)'],
  [
    'ShareGPT',
    'chats.jsonl',
    lines(
      times(24, (i) => ({
        conversations: [
          { from: 'human', value: `Tell of box ${i}.` },
          { from: 'gpt', value: essay(i) },
        ],
      })),
    ),
    '24 conversations with long answers',
  ],
  [
    'Alpaca',
    'alpaca.json',
    JSON.stringify(
      times(24, (i) => ({ instruction: 'Which colour?', input: `Box ${i} is ${colour(i)}.`, output: colour(i) })),
    ),
    '24 texts with 4 labels (black, blue, green, red)',
  ],
  [
    'TRL preferences',
    'trl.jsonl',
    lines(
      times(24, (i) => ({
        chosen: [
          { role: 'user', content: `Say ${i}.` },
          { role: 'assistant', content: String(i) },
        ],
        rejected: [
          { role: 'user', content: `Say ${i}.` },
          { role: 'assistant', content: 'No.' },
        ],
      })),
    ),
    '24 preferences: a better and a worse answer each',
  ],
  [
    'KTO',
    'kto.csv',
    `prompt,completion,label\n${times(24, (i) => `Say ${i}.,${i % 2 === 0 ? i : 'No.'},${i % 2 === 0 ? 'True' : 'False'}\n`).join('')}`,
    '24 answers, each good or bad (KTO)',
  ],
  ['prompts', 'prompts.txt', 'Hello, you\nGood, bye\nAnd now\nThe end\n', '4 prompts without answers'],
]

describe('what it is, and a folder for it', () => {
  test.each(FILES)('%s', async (_what, name, content, says) => {
    const file = await put(name, content)
    const folder = join(home.path, `of-${name}`)
    const { exitCode, stdout, stderr } = await cli(['init', file, folder, ...SPARK], { home: home.path })
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining(`${name}: ${says}`)])
    expect(stdout).toMatch(/\d+ (rows|prompts) to train on, \d+ held out/)
    const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { scripts: { start: string } }
    const program = manifest.scripts.start.replace(/^node /, '')
    expect(await readdir(folder)).toEqual(
      expect.arrayContaining(['train.jsonl', 'held-out.jsonl', 'README.md', program]),
    )
    // programs in TypeScript are checked by who runs them
    if (program.endsWith('.mjs')) await run(process.execPath, ['--check', program], { cwd: folder })
  })
})

describe('to a trained model', () => {
  test.each([
    ['labels', () => put('learn.csv', quoted), /^Learned: held-out reward 0\.\d+ before, 1\.00 at best/m],
    ['Parquet of messages', () => table('messages.parquet'), /^Learned: held-out reward \S+ before, \S+ at best/m],
    ['preferences', () => table('pairs.parquet'), /^Learned: in \d+% of 5 held-out pairs/m],
    [
      'long conversations',
      () => put('talk.jsonl', String(FILES.find(([what]) => what === 'ShareGPT')?.[2])),
      /^Trained on 19 rows: held-out loss [\d.]+ at first, [\d.]+ at last/m,
    ],
  ])(
    '%s',
    async (what, file, said) => {
      const folder = join(home.path, `run-${what.replaceAll(' ', '-')}`)
      const { exitCode, stdout, stderr } = await cli(['init', await file(), folder, ...SPARK, '--run'], {
        home: home.path,
      })
      expect([exitCode, stderr]).toEqual([0, expect.any(String)])
      expect(stdout).toMatch(said)
      expect(stdout.trim().split('\n').at(-1)).toContain('next: trainyard serve --data-dir ./data, then trainyard chat')
    },
    400_000,
  )
})

test('what cannot be taken is one clear sentence, and nothing is written', async () => {
  const broken = lines(times(40, (i) => ({ prompt: `${i}`, answer: `${i}` }))).replace(
    '{"prompt":"20"',
    '{"prompt":"20',
  )
  const refusals: readonly (readonly [readonly string[], string])[] = [
    [[await put('broken.jsonl', broken), ...SPARK], 'broken.jsonl:21: not valid JSON'],
    [
      [await put('odd.csv', 'Frage;Was\n1+1;2\n'), ...SPARK],
      'which column is asked, and which one is answered? It has Frage, Was',
    ],
    [
      [await put('half.csv', 'question,answer\na,b\nc,\nd,e\nf,g\n'), '--base-model', './none'],
      './none does not exist',
    ],
    [['nothing.csv', ...SPARK], 'nothing.csv does not exist'],
    [
      ['mine', '--base-model', 'trainyard/sprak', '--have', 'checker', '--prompts', 'sample'],
      'trainyard/sprak is no built-in model',
    ],
  ]
  for (const [argv, said] of refusals) {
    const { exitCode, stderr } = await cli(['init', ...argv], { home: home.path })
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(said)])
    expect(stderr.split('\n').filter((line) => line.startsWith('error:'))).toHaveLength(1)
  }
})
