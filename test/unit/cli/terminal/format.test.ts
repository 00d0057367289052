/** Numbers, times and tables as people read them, and the filter for model text. */
import { Chalk } from 'chalk'
import { describe, expect, test } from 'vitest'
import { nextPageCommand } from '../../../../src/cli/command/page-flags.js'
import {
  formatBytes,
  formatClock,
  formatDuration,
  formatNumber,
  formatRelativeTime,
} from '../../../../src/cli/terminal/format.js'
import type { Sink } from '../../../../src/cli/terminal/io.js'
import { sanitizeForTerminal, sanitizeLine } from '../../../../src/cli/terminal/sanitize.js'
import { type Column, renderPlainRows, renderTable, wrapWords } from '../../../../src/cli/terminal/table.js'
import { quoteWord } from '../../../../src/contract/wire/command-words.js'

describe('lines for a window', () => {
  test.each([
    ['one two three', 8, ['one two', 'three']],
    ['  one two three', 9, ['  one two', '  three']],
    ['  --json   one document or lines', 22, ['  --json   one', '           document or', '           lines']],
    ['averyveryverylongword b', 10, ['averyveryverylongword', 'b']],
    ['日本 日本 日本', 9, ['日本 日本', '日本']],
    ['short', 80, ['short']],
  ])('%j in %d columns', (text, columns, lines) => {
    expect(wrapWords(text, columns).map((line) => line.trimEnd())).toEqual(lines)
  })
})

describe('format', () => {
  test.each([
    [0, '0 B'],
    [999, '999 B'],
    [1500, '1.5 kB'],
    [8_734_976, '8.7 MB'],
    [988_000_000, '988 MB'],
    [999_900_000, '1 GB'],
  ])('bytes: %d reads %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text)
  })
  test('numbers keep three digits and are never needlessly exponential', () => {
    expect([0.0132, 5e-6, 2140, 0.5, 1234.56, 1e7 + 0.5, -0.001234].map(formatNumber)).toEqual([
      '0.0132',
      '5e-6',
      '2140',
      '0.5',
      '1234.6',
      '1e7',
      '-0.00123',
    ])
  })
  test('durations and clocks', () => {
    expect([38_000, 842_000, 3_723_000].map(formatClock)).toEqual(['0:38', '14:02', '1:02:03'])
    expect([500, 38_000, 81_000, 7_380_000].map(formatDuration)).toEqual(['500ms', '38s', '1m 21s', '2h 3m'])
  })
  test('what a server sends as a date and is none is no number either', () => {
    const ms = Date.parse('\u001b[31mnever') - Date.parse('2026-11-20T10:00:00Z')
    expect([formatClock(ms), formatDuration(ms), formatClock(Number.POSITIVE_INFINITY)]).toEqual(['?', '?', '?'])
  })
  test('relative times', () => {
    const now = Date.parse('2026-11-20T10:00:00Z')
    expect(formatRelativeTime('2026-11-20T09:59:58Z', now)).toBe('just now')
    expect(formatRelativeTime('2026-11-20T08:00:00Z', now)).toBe('2 hours ago')
    expect(formatRelativeTime('2026-11-19T10:00:00Z', now)).toBe('1 day ago')
    expect(formatRelativeTime('not a time', now)).toBe('not a time')
  })
})

describe('sanitize', () => {
  test('escapes, bells, carriage returns and direction overrides go; newlines and tabs stay', () => {
    expect(sanitizeForTerminal('a\u001b[31mb\u0007c\rd\u009b2Je\u202ef\n\tg')).toBe('a[31mbcd2Jef\n\tg')
    expect(sanitizeForTerminal('plain täxt 漢字')).toBe('plain täxt 漢字')
    expect(sanitizeLine('a\nb\tc')).toBe('a b c')
  })
})

interface Row {
  readonly name: string
  readonly size: number | null
  readonly at: string
}
const columns: readonly Column<Row>[] = [
  { header: 'name', kind: 'name', get: (row) => row.name, canShrink: true },
  { header: 'size', kind: 'bytes', get: (row) => row.size },
  { header: 'created', kind: 'time', get: (row) => row.at },
]
const rows: readonly Row[] = [
  { name: 'short', size: 1500, at: '2026-11-20T09:00:00Z' },
  { name: 'a-very-long-name-that-does-not-fit-into-the-terminal', size: null, at: '2026-11-20T08:00:00Z' },
]
function sink(width: number): Sink {
  return { isTerminal: true, width, chalk: new Chalk({ level: 0 }), isUnicode: true, write: () => undefined }
}
const nowMs = Date.parse('2026-11-20T10:00:00Z')

describe('table', () => {
  test('a terminal gets aligned columns under an upper-case header', () => {
    const { text, isCut } = renderTable(rows.slice(0, 1), columns, { sink: sink(80), nowMs })
    expect(text).toBe('NAME      SIZE   CREATED\nshort   1.5 kB   1 hour ago\n')
    expect(isCut).toBe(false)
  })
  test('columns that may shrink are cut to the width, and it says so', () => {
    const { text, isCut } = renderTable(rows, columns, { sink: sink(50), nowMs })
    expect(isCut).toBe(true)
    expect(text).toContain('…')
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(50)
  })
  test('a pipe gets tabs, full values, ISO times and the same number of fields in every row', () => {
    const lines = renderPlainRows(rows, columns).trimEnd().split('\n')
    expect(lines[0]).toBe('short\t1500\t2026-11-20T09:00:00Z')
    expect(lines[1]).toBe('a-very-long-name-that-does-not-fit-into-the-terminal\t\t2026-11-20T08:00:00Z')
  })
  test('control characters in a name cannot break a row', () => {
    const hostile = [{ name: 'x\u001b[2J\ny\tz', size: 1, at: '' }]
    expect(renderPlainRows(hostile, columns)).toBe('x[2J y z\t1\t\n')
  })
})

describe('next page', () => {
  test('is the exact command, quoted for a shell', () => {
    const more = { object: 'list' as const, data: [], first_id: 'a', last_id: 'b', has_more: true }
    expect(nextPageCommand('models list', more, { '--base-model': "it's", '--limit': 5 })).toBe(
      "trainyard models list --base-model 'it'\\''s' --limit 5 --after b",
    )
    expect(nextPageCommand('models list', { ...more, has_more: false }, {})).toBeNull()
    expect(quoteWord('val/reward')).toBe('val/reward')
  })
})
