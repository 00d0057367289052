/** `trainyard data convert`: what rows of other trainers become for each command, as the readers of jobs read them; nothing half-made. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, test } from 'vitest'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { runCli, unreachable } from '../../../support/service/run-cli.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-convert-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const turns = [
  { from: 'human', value: 'What is tea?' },
  { from: 'gpt', value: 'A drink.' },
]
const messages = [
  { role: 'user', content: 'What is tea?' },
  { role: 'assistant', content: 'A drink.' },
]
const kto = [true, false, false].map((label, i) => ({ prompt: 'q', completion: `a${i}`, label }))

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

function linesOf(rows: readonly unknown[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}

async function convert(text: string | Uint8Array, args: readonly string[] = []) {
  const own = mkdtempSync(join(folder, 'case-'))
  const [input, output] = [join(own, 'in'), join(own, 'out')]
  writeFileSync(input, text)
  const run = await runCli(['data', 'convert', input, '--out', output, ...args], { fetch: unreachable })
  return { ...run, made: existsSync(output) ? readFileSync(output, 'utf8') : null }
}

describe('data convert', () => {
  test.each<readonly [string, string | Uint8Array, readonly string[], readonly unknown[], string]>([
    [
      'ShareGPT',
      linesOf([{ conversations: turns }]),
      [],
      [{ messages }],
      '1 row for sft, of 1 row, each a ShareGPT row',
    ],
    ['gzip', gzipSync(linesOf([{ conversations: turns }])), ['--to', 'sft'], [{ messages }], '1 row for sft'],
    [
      'one array',
      JSON.stringify([{ messages }, { question: 'q', answer: 'a' }], null, 2),
      ['--to', 'sft'],
      [
        { messages },
        {
          messages: [
            { role: 'user', content: 'q' },
            { role: 'assistant', content: 'a' },
          ],
        },
      ],
      '2 rows for sft, of 1 row, each a conversation; 1 row, each a question and its answer',
    ],
    [
      'objects over lines',
      `${JSON.stringify({ messages }, null, 2)}\n${JSON.stringify({ messages }, null, 2)}\n`,
      [],
      [{ messages }, { messages }],
      '2 rows for sft',
    ],
    ['KTO, good ones', linesOf(kto), ['--to', 'sft'], [{ prompt: 'q', completion: 'a0' }], '2 rows left out'],
    ['KTO, pairs', linesOf(kto), ['--to', 'dpo'], [{ prompt: 'q', chosen: 'a0', rejected: 'a1' }], '1 row left out'],
    [
      'HH-RLHF',
      linesOf([{ chosen: '\n\nHuman: q\n\nAssistant: a', rejected: '\n\nHuman: q\n\nAssistant: b' }]),
      [],
      [
        {
          chosen: [
            { role: 'user', content: 'q' },
            { role: 'assistant', content: 'a' },
          ],
          rejected: [
            { role: 'user', content: 'q' },
            { role: 'assistant', content: 'b' },
          ],
        },
      ],
      '1 row for dpo',
    ],
  ])('%s', async (_name, text, args, wanted, said) => {
    const { made, stdout, exitCode } = await convert(text, args)
    expect(exitCode).toBe(0)
    expect(stdout).toContain(said)
    expect(made).toBe(linesOf(wanted))
    const isPreference = stdout.includes('for dpo')
    const count = isPreference ? countPreferenceExamples : countSftExamples
    expect(await count(bytes(made ?? ''))).toBe(wanted.length)
  })

  const askedAndAnswered = (...turns: readonly object[]) => [{ role: 'user', content: 'q' }, ...turns]

  test.each<readonly [string, object, readonly object[]]>([
    [
      'weight and train of ShareGPT turns stay',
      {
        conversations: [
          { from: 'human', value: 'q' },
          { from: 'gpt', value: 'BAD', weight: 0 },
          { from: 'human', value: 'q' },
          { from: 'gpt', value: 'worse', train: false },
        ],
      },
      askedAndAnswered(
        { weight: 0, role: 'assistant', content: 'BAD' },
        { role: 'user', content: 'q' },
        { train: false, role: 'assistant', content: 'worse' },
      ),
    ],
    [
      'the system prompt of OpenOrca',
      { system_prompt: 'In French.', question: 'q', response: 'Salut.' },
      [{ role: 'system', content: 'In French.' }, ...askedAndAnswered({ role: 'assistant', content: 'Salut.' })],
    ],
    [
      'a system prompt that the turns begin with stands there once',
      {
        system: 'Be brief.',
        conversations: [
          { from: 'system', value: 'Be brief.' },
          { from: 'human', value: 'q' },
          { from: 'gpt', value: 'a' },
        ],
      },
      [{ role: 'system', content: 'Be brief.' }, ...askedAndAnswered({ role: 'assistant', content: 'a' })],
    ],
  ])('%s', async (_name, row, wanted) => {
    const { made } = await convert(linesOf([row]))
    expect(made).toBe(linesOf([{ messages: wanted }]))
  })

  test('fields that no job reads are named, with how many rows have them and where first', async () => {
    const turn = { from: 'gpt', value: 'a', score: 2 }
    const rows = [
      { id: 1, conversations: [turns[0], turn], source: null },
      { id: 2, conversations: turns },
    ]
    const named = await convert(linesOf(rows))
    expect(named.stderr).toMatch(/nothing reads: id \(2 rows, first .*in:1\), messages\[\]\.score \(.*in:1\)/)
    const json = await convert(linesOf(rows), ['--json'])
    expect(JSON.parse(json.stdout).unread.map(({ field, rows: count }: never) => [field, count])).toEqual([
      ['id', 2],
      ['messages[].score', 1],
    ])
    // what is asked keeps everything for its reward
    expect((await convert(linesOf(rows), ['--to', 'prompts'])).stderr).not.toContain('nothing reads')
  })

  test.each([
    [{ prompt: 'q', completion: 'a' }, 0, 1],
    [{ prompt: 'q', completion: 'a' }, 'False', 'True'],
    [{ instruction: 'q', output: 'a' }, false, true],
  ])('labels of KTO as tables write them: %j with %j and %j', async (row, bad, good) => {
    const name = 'output' in row ? 'kto_tag' : 'label'
    const rows = [bad, good].map((label, i) => ({
      ...row,
      ['output' in row ? 'output' : 'completion']: `a${i}`,
      [name]: label,
    }))
    const { made, stdout } = await convert(linesOf(rows), ['--to', 'sft'])
    expect(stdout).toContain('1 row left out')
    expect(made).toContain('a1')
    expect(made).not.toContain('a0')
    expect((await convert(linesOf(rows))).stderr).toContain('give --to sft')
  })

  test.each<readonly [string, string | Uint8Array, string, string]>([
    [
      'a pointer',
      'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n',
      'Git LFS pointer',
      'git lfs pull',
    ],
    ['a web page', '<!DOCTYPE html>\n<html></html>', 'web page (HTML)', '/resolve/'],
    ['a compressed web page', gzipSync('<html></html>'), 'web page (HTML)', '/resolve/'],
    ['an archive', Buffer.from('PK\x03\x04rest'), 'zip archive', 'unpack'],
    ['half a Parquet table', Buffer.from('PAR1rest'), 'begins like a Parquet table but cannot be read', 'cut off'],
    ['UTF-16', Buffer.from('\ufeff{"prompt":"q","completion":"a"}\n', 'utf16le'), 'UTF-16', 'iconv'],
    ['UTF-16 without a mark', Buffer.from('{"prompt":"q","completion":"a"}\n', 'utf16le'), 'UTF-16LE', 'iconv'],
    ['a pickle', Uint8Array.of(0x80, 4, 0x95, 0), 'Python pickle', 'JSON'],
  ])('%s is called what it is', async (_name, text, said, hint) => {
    const { made, stderr, exitCode } = await convert(text)
    expect(stderr).toContain(said)
    expect(stderr).toContain(hint)
    expect({ made, exitCode }).toEqual({ made: null, exitCode: 2 })
  })

  test('a table is read by the names of its columns, by --map, or by what a column holds', async () => {
    const turnsOf = (asked: string, answered: string) => ({
      messages: [
        { role: 'user', content: asked },
        { role: 'assistant', content: answered },
      ],
    })
    const named = await convert('text,label\nGood tea,1\nBad tea,0\n')
    expect([named.stderr, named.made]).toEqual(['', linesOf([turnsOf('Good tea', '1'), turnsOf('Bad tea', '0')])])
    const mapped = await convert('Frage;Antwort\n1+1;2\n', ['--map', 'Frage=prompt,Antwort=completion'])
    expect(mapped.made).toBe(linesOf([{ prompt: '1+1', completion: '2' }]))
    const mails = Array.from({ length: 6 }, (_, i) => `Ein langer Satz ${i};${i % 2 === 0 ? 'Lob' : 'Tadel'}\n`)
    const found = await convert(`Satz;Klasse\n${mails.join('')}`)
    expect(found.stdout).toContain('with Satz as prompt, Klasse as completion (--map says otherwise)')
    expect(found.made?.split('\n')[1]).toBe('{"prompt":"Ein langer Satz 1","completion":"Tadel"}')
  })

  test.each([
    ['a;b\n1;2\n', [], 'its form does not say what the rows are for (it has a, b)'],
    ['Frage;b\n1;2\n', ['--map', 'Frag=prompt,b=completion'], 'has no column "Frag", it has Frage, b'],
    ['text,label\na,b\n', ['--map', 'text=question'], 'one of prompt, completion'],
    ['text,prompt\na,b\n', ['--map', 'text=prompt'], 'has prompt beside text, which is mapped to it'],
    [
      `text,label\n${'one, two,x\n'.repeat(1200)}`,
      [],
      'in:2: has 3 fields under 2 columns; a text with separators or line breaks stands in quotes (1,200 rows, this is the first)\n',
    ],
  ])('%s with %j is refused in one sentence', async (text, args, said) => {
    const { made, stderr, exitCode } = await convert(text, args)
    expect(stderr).toContain(said)
    expect({ made, exitCode }).toEqual({ made: null, exitCode: 2 })
  })

  test('--to prompts keeps what was asked, with the answer to compare with', async () => {
    const rows = [
      { conversations: turns },
      { prompt: '2+2?', completion: '4' },
      { question: '3+3?', answer: '6' },
      { prompt: '2+2?', chosen: '4', rejected: '5' },
      { prompt: 'plain', answer: 'x' },
      { trajectories: [{ messages_and_choices: [messages[0], { message: messages[1] }], reward: 1 }] },
      { messages: [{ role: 'system', content: 'Be brief.' }, ...messages] },
    ]
    const { made } = await convert(linesOf(rows), ['--to', 'prompts'])
    expect(made).toBe(
      linesOf([
        { prompt: 'What is tea?', answer: 'A drink.' },
        { prompt: '2+2?', answer: '4' },
        { prompt: '3+3?', answer: '6' },
        { prompt: '2+2?' },
        { prompt: 'plain', answer: 'x' },
        { prompt: 'What is tea?' },
        { messages: [{ role: 'system', content: 'Be brief.' }, messages[0]], answer: 'A drink.' },
      ]),
    )
  })

  test('numbers of tools stay as they were written', async () => {
    const tools = '[{"name":"f","parameters":{"maximum":9223372036854775807}}]'
    const { made } = await convert(linesOf([{ messages, tools }]))
    expect(made).toContain('"maximum":9223372036854775807')
  })

  test.each<readonly [string, string, readonly string[], string]>([
    ['a row that cannot be', linesOf([{ conversations: turns }, { text: 'Once.' }]), [], ':2: is a row of plain text'],
    ['of no known form', linesOf([{ a: 1 }]), ['--to', 'sft'], ':1: has no form that is known'],
    [
      'preferences as conversations',
      linesOf([{ prompt: 'q', chosen: 'a', rejected: 'b' }]),
      ['--to', 'sft'],
      '--to dpo',
    ],
    ['conversations as preferences', linesOf([{ messages }]), ['--to', 'dpo'], 'of which no preference is made'],
    ['KTO without a word', linesOf(kto), [], 'give --to sft'],
    ['a torn array', '[{"messages":[]},', [], 'not valid JSON'],
    ['nothing', '\n', [], 'holds no row'],
  ])('%s is refused and nothing is written', async (_name, text, args, said) => {
    const { made, stderr, exitCode } = await convert(text, args)
    expect(stderr).toContain(said)
    expect({ made, exitCode }).toEqual({ made: null, exitCode: 2 })
  })
})
