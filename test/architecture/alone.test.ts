/**
 * A test file that imports one that runs alone (`ALONE` in `vitest.config.ts`) runs alone itself: its tests are the same. Vitest itself says
 * which files those are.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ROOT } from './source-tree.js'

async function listAlone(): Promise<Set<string>> {
  const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs')
  // what this run tells its own workers is not for that one
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VITEST|TINYPOOL)/.test(name)))
  const args = [vitest, 'list', '--filesOnly', '--json', '--project', 'alone']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env, maxBuffer: 2 ** 26 })
  const files = JSON.parse(stdout) as { readonly file: string }[]
  return new Set(files.map(({ file }) => path.relative(ROOT, file).replaceAll(path.sep, '/')))
}

/** @returns test files that it imports, anywhere in it */
function importedTests(file: string): string[] {
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  return [...text.matchAll(/(?:\bimport\(\s*|\bfrom\s+|\bimport\s+)'(\.[^']+\.test)\.js'/g)].map(([, specifier]) =>
    path.posix.join(path.posix.dirname(file), `${specifier}.ts`),
  )
}

test('what imports a test that runs alone runs alone', async () => {
  const alone = await listAlone()
  const tests = readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .map((name) => path.posix.join('test', name.replaceAll(path.sep, '/')))
    .filter((name) => name.endsWith('.test.ts'))
  const imports = tests.flatMap((file) => importedTests(file).map((imported) => ({ file, imported })))
  // far fewer would mean that files or imports are not seen
  expect(Math.min(alone.size, imports.length)).toBeGreaterThan(10)
  const beside = imports.filter(({ file, imported }) => alone.has(imported) && !alone.has(file))
  expect(beside.map(({ file, imported }) => `${file} imports ${imported}: name it in ALONE, too`)).toEqual([])
})
