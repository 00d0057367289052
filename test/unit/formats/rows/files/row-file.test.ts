/** Files of rows as people have them: what each holds, where its rows stand, and what is said of the broken ones. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { readRecords } from '#formats/rows/files/delimited.js'
import { isTable, readAnyRows } from '#formats/rows/files/row-file.js'

const fixture = (name: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(readFileSync(join(import.meta.dirname, '../../../../fixtures/tables', name)))

async function rowsOf(content: string | Uint8Array<ArrayBuffer>, name = 'f', takesText = false) {
  const rows: unknown[] = []
  for await (const { where, row } of readAnyRows(new Blob([content]), name, { takesText })) {
    rows.push(typeof row === 'string' ? `${where}: ${row}` : row)
  }
  return rows
}

const rows = [
  { text: 'Guten Tag, "Welt"', label: 'größer' },
  { text: 'two\nlines', label: '' },
]
const csv = (separator: string): string =>
  `\ufeff"text"${separator}label\r\n"Guten Tag, ""Welt"""${separator}größer\r\n"two\nlines"${separator}\r\n${separator}\r\n`

describe('a table of text', () => {
  test.each([
    ['commas', csv(',')],
    ['semicolons', csv(';')],
    ['tabs', csv('\t')],
    ['gzip', new Uint8Array(gzipSync(csv(',')))],
    ['numbers of rows, as pandas writes them', `,text,label\n0,"Guten Tag, ""Welt""",größer\n1,"two\nlines",\n`],
    ['names in capitals', csv(',').replace('"text"', 'Text').replace('label', 'LABEL')],
  ])('with %s', async (_name, content) => {
    expect(await rowsOf(content)).toEqual(rows)
  })

  test('is told from prompts by its columns, or by its name', async () => {
    const table = 'question,answer\n1+1,2\n'
    expect(await rowsOf(table, 'f', true)).toEqual([{ question: '1+1', answer: '2' }])
    expect(await rowsOf('Frage;Was\n1+1;2\n', 'f.csv', true)).toEqual([{ Frage: '1+1', Was: '2' }])
    expect(await rowsOf('Hello, world\nGood, bye\n', 'f', true)).toEqual([
      expect.stringContaining('f:1: not valid JSON'),
      expect.stringContaining('f:2: not valid JSON'),
    ])
    expect(await isTable(new Blob([table]), 'f')).toBe(true)
    expect(await isTable(new Blob(['{"text":"a,b"}\n']), 'f.csv')).toBe(false)
  })

  test('a broken row is named by its line, and the others are read', async () => {
    const content = 'text,label\n"a\nb",x\none, two,y\n"well," she said,z\n"open,w\n'
    expect(await rowsOf(content, 'f.csv')).toEqual([
      { text: 'a\nb', label: 'x' },
      expect.stringMatching(/^f\.csv:4: has 3 fields under 2 columns/),
      expect.stringMatching(/^f\.csv:5: has 3 fields under 2 columns/),
      'f.csv:6: opens a quote that is never closed',
    ])
  })

  test('a quote inside a text stands for itself', async () => {
    expect(await rowsOf('text\tlabel\n"Well" she said\tx\n5" nail\ty\n', 'f.tsv')).toEqual([
      { text: '"Well" she said', label: 'x' },
      { text: '5" nail', label: 'y' },
    ])
  })

  test('turns as JSON text are turns, other JSON stays text, and what Python prints is refused', async () => {
    const turns = '[{""role"":""user"",""content"":""Hi""}]'
    const content = `messages,answer\n"${turns}","[{""a"":1}]"\n"[{'role': 'user'}]",x\n`
    expect(await rowsOf(content)).toEqual([
      { messages: [{ role: 'user', content: 'Hi' }], answer: '[{"a":1}]' },
      expect.stringContaining('f:3: messages: is a list as Python prints it'),
    ])
  })

  test.each([
    ['a column twice', 'text,label,text\na,b,c\n', 'names the column "text" twice'],
    ['no row', 'text,label\n', 'holds the names of columns and no row'],
    ['another encoding', new Uint8Array(Buffer.from('text,label\ngr\xfcn,x\n', 'latin1')), 'is not UTF-8 text'],
  ])('%s is refused', async (_name, content, said) => {
    await expect(rowsOf(content, 'f.csv')).rejects.toThrow(said)
  })

  test('comes out the same however it is cut into pieces', async () => {
    const text = csv(',').slice(1)
    const read = async (size: number) => {
      const records = []
      for await (const record of readRecords(pieces(text, size), ',')) records.push(record)
      return records
    }
    const whole = await read(text.length)
    for (const size of [1, 2, 3, 7]) expect(await read(size)).toEqual(whole)
    expect(whole.map(({ line }) => line)).toEqual([1, 2, 3])
  })
})

async function* pieces(text: string, size: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
}

describe('Parquet', () => {
  test('holds lists of structs as messages, without what a row lacks', async () => {
    const read = await rowsOf(fixture('messages.parquet'))
    expect(read).toHaveLength(40)
    expect(read[17]).toEqual({
      id: 17,
      messages: [
        { role: 'user', content: 'Box 17 is green. Which colour?' },
        { role: 'assistant', content: 'green' },
      ],
    })
  })

  test('compressed with zstd or gzip, inside and out; classes have their names', async () => {
    expect((await rowsOf(fixture('classes.parquet'))).slice(0, 2)).toEqual([
      { text: 'The tea number 0 is bad.', label: 'bad' },
      { text: 'The tea number 1 is good.', label: 'good' },
    ])
    expect(await rowsOf(new Uint8Array(gzipSync(fixture('pairs.parquet'))))).toHaveLength(24)
  })

  test('that is cut is one sentence', async () => {
    await expect(rowsOf(fixture('pairs.parquet').slice(0, 700))).rejects.toThrow(
      'f begins like a Parquet table but cannot be read',
    )
  })
})

test('JSON Lines, one array and objects over several lines give the same rows', async () => {
  const lines = rows.map((row) => JSON.stringify(row)).join('\n')
  const spread = rows.map((row) => JSON.stringify(row, null, 2)).join('\n')
  for (const content of [lines, JSON.stringify(rows), spread]) expect(await rowsOf(content)).toEqual(rows)
  await expect(rowsOf(JSON.stringify(rows).slice(0, -5))).rejects.toThrow('f is not valid JSON')
})
