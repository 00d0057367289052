/** Benchmarks run by hand and seldom: what they import of the build must be there under that name. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const IMPORTED = /dist\/((?:src|commands)\/[\w/-]+)\.js|\bload\('([\w/-]+)'\)/g

test('benchmarks import modules that exist', () => {
  const files = readdirSync(join(ROOT, 'test/bench'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.js'),
  )
  const imported = files.flatMap((name) =>
    [...readFileSync(join(ROOT, 'test/bench', name), 'utf8').matchAll(IMPORTED)].map(([, built, loaded]) => ({
      name,
      module: built ?? `src/${loaded}`,
    })),
  )
  expect(imported.length).toBeGreaterThan(20)
  const missing = imported.filter(({ module }) => !existsSync(join(ROOT, `${module}.ts`)))
  expect(missing).toEqual([])
})
