/**
 * What the service promises of bad input, of faults, and of what dies: each line with the tests that hold it, on SQLite with files, and on PostgreSQL
 * (with a bucket where blobs matter). `promises.json` is the table; here is held that what it names is there.
 *
 * A test is named `file > part of its title`. In the folder of tests that run those of SQLite once more on PostgreSQL the part is the file that is run.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
/** How many lines each table has at least. */
const LINES = { 'what dies': 11, faults: 17, requests: 28 }

interface PromiseLine {
  readonly table: keyof typeof LINES
  readonly line: string
  readonly tests: readonly string[]
  readonly onPostgres?: readonly string[]
  /** Why what holds on the one holds on the other. */
  readonly sameOnBoth?: string
}

const promises = JSON.parse(readFileSync(join(import.meta.dirname, 'promises.json'), 'utf8')) as readonly PromiseLine[]

test('every line of the tables is there, once', () => {
  const counts = Object.fromEntries(
    Object.keys(LINES).map((table) => [table, promises.filter((promise) => promise.table === table).length]),
  )
  for (const [table, least] of Object.entries(LINES)) expect(counts[table], table).toBeGreaterThanOrEqual(least)
  expect(new Set(promises.map(({ table, line }) => `${table} ${line}`)).size).toBe(promises.length)
})

describe.each(Object.keys(LINES))('%s', (table) => {
  test.each(promises.filter((promise) => promise.table === table).map((promise) => [promise.line, promise] as const))(
    '%s',
    (_, { tests, onPostgres = [], sameOnBoth }) => {
      expect(tests.length).toBeGreaterThan(0)
      // either its own tests, or the reason for none
      expect(onPostgres.length > 0).not.toBe(sameOnBoth !== undefined)
      for (const named of [...tests, ...onPostgres]) {
        const [file = '', title = ''] = named.split(' > ')
        expect(existsSync(join(ROOT, file)), file).toBe(true)
        expect(readFileSync(join(ROOT, file), 'utf8')).toContain(title)
      }
    },
  )
})
