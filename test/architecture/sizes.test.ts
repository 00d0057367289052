/**
 * Files stay readable in one sitting: 500 lines is a failure unless `sizes.json` gives a reason. Prints a total per room so
 * that growth is seen in every log. Also: a header in every file, and the words that have no place in `src/`.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { readSourceTree, roomOf } from './source-tree.js'

interface Sizes {
  readonly limit: number
  readonly allowed: Readonly<Record<string, { readonly lines: number; readonly reason: string }>>
}

const sizes = JSON.parse(readFileSync(path.join(import.meta.dirname, 'sizes.json'), 'utf8')) as Sizes
const files = readSourceTree()

test('no file is longer than the limit without a reason', () => {
  const totals = new Map<string, number>()
  for (const file of files) totals.set(roomOf(file.path), (totals.get(roomOf(file.path)) ?? 0) + file.lineCount)
  const lines = [...totals].sort((a, b) => b[1] - a[1]).map(([room, count]) => `${String(count).padStart(6)} ${room}`)
  process.stdout.write(`lines per room\n${lines.join('\n')}\n`)
  const tooLong = files
    .filter((file) => file.lineCount > (sizes.allowed[file.path]?.lines ?? sizes.limit))
    .map((file) => `${file.path}: ${file.lineCount} lines`)
  expect(tooLong).toEqual([])
})

test('every entry of the allow-list is still needed', () => {
  const stale = Object.keys(sizes.allowed).filter(
    (name) => (files.find((file) => file.path === name)?.lineCount ?? 0) <= sizes.limit,
  )
  expect(stale).toEqual([])
})

test('every file opens with a header that says what it is for', () => {
  expect(files.filter((file) => !/^(#!.*\n)?\/\*\*/.test(file.text)).map((file) => file.path)).toEqual([])
})

const FORBIDDEN: readonly { readonly pattern: RegExp; readonly rule: string; readonly owners: readonly string[] }[] = [
  {
    pattern: /\bprocess\.env\b/,
    rule: 'process.env',
    // the last writes a program of the user's
    owners: ['src/base/environment.ts', 'src/training/worker/main.ts', 'src/plugins/init/task.ts'],
  },
  {
    pattern: /\bprocess\.exit\(/,
    rule: 'process.exit',
    owners: [
      'src/inference/host/main.ts',
      'src/plugins/engine-nodes/node/',
      'src/plugins/loops/process/main.ts',
      'src/base/processes/ask-process.ts',
      'commands/main.ts',
      'src/cli/',
      // the text of a program that is written for somebody
      'src/plugins/init/task.ts',
    ],
  },
  { pattern: /\bDate\.now\(/, rule: 'Date.now', owners: ['src/base/util/', 'src/plugins/page/browser/data/clock.ts'] },
  { pattern: /\bMath\.random\(/, rule: 'Math.random', owners: ['src/base/util/'] },
  { pattern: /\brandomUUID\(/, rule: 'randomUUID', owners: ['src/base/util/'] },
  {
    pattern: /\.(start)?[tT]ransaction\(\)/,
    rule: 'a transaction that is not inTransaction',
    owners: ['src/service/storage/in-transaction.ts', 'src/plugins/postgres/storage/shared-transactions.ts'],
  },
  { pattern: /\bas unknown as\b/, rule: 'as unknown as', owners: [] },
  { pattern: /^export default\b/m, rule: 'default export', owners: [] },
  { pattern: /^export \*/m, rule: 'export *', owners: [] },
  { pattern: /:\s*any\b|<any>|as any\b/, rule: 'any', owners: [] },
  {
    pattern: /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|createContextualFragment)\b/,
    rule: 'markup made of text',
    owners: [],
  },
  { pattern: /\bTODO\b(?! \(#\d+\))/, rule: 'TODO without an issue number', owners: [] },
]

test.each(FORBIDDEN)('$rule stays with its owner', ({ pattern, owners }) => {
  const offenders = files
    .filter((file) => !owners.some((owner) => file.path.startsWith(owner)))
    .filter((file) => pattern.test(file.text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*$/gm, '')))
    .map((file) => file.path)
  expect(offenders).toEqual([])
})
