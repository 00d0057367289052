/**
 * Every test file is in one tier and one project of `vitest.config.ts`: what is in none never runs. Vitest itself says which files those are.
 *
 * A file that imports one that runs alone runs alone itself, as its tests are the same; and where files share a process none imports another,
 * for the tests of a module that is loaded already are not there a second time.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { ROOT } from './source-tree.js'

/** A mode of each tier; without one every file runs. */
const TIERS = ['quick', 'all', 'nightly']
/** Projects whose files share a process (`isolate: false`). */
const SHARED = ['unit', 'api']

/** The project of each file that a mode runs, by `file`; twice where two have it. */
async function listFiles(mode: string): Promise<readonly (readonly [string, string])[]> {
  const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs')
  // what this run tells its own workers is not for that one
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VITEST|TINYPOOL)/.test(name)))
  const args = [vitest, 'list', '--filesOnly', '--json', '--mode', mode]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env, maxBuffer: 2 ** 26 })
  const files = JSON.parse(stdout) as { readonly file: string; readonly projectName: string }[]
  return files.map(({ file, projectName }) => [path.relative(ROOT, file).replaceAll(path.sep, '/'), projectName])
}

/** @returns test files that it imports, anywhere in it */
function importedTests(file: string): string[] {
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  return [...text.matchAll(/(?:\bimport\(\s*|\bfrom\s+|\bimport\s+)'(\.[^']+\.test)\.js'/g)].map(([, specifier]) =>
    path.posix.join(path.posix.dirname(file), `${specifier}.ts`),
  )
}

const tests = readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => path.posix.join('test', name.replaceAll(path.sep, '/')))
  .filter((name) => name.endsWith('.test.ts'))
  .sort()
const imports = tests.flatMap((file) => importedTests(file).map((imported) => ({ file, imported })))

let inTiers: readonly (readonly [string, string])[]
let projectOf: ReadonlyMap<string, string>
beforeAll(async () => {
  inTiers = (await Promise.all(TIERS.map(listFiles))).flat()
  projectOf = new Map(inTiers)
})

test('every test file is in one tier, and in one project of it', () => {
  expect(inTiers.map(([file]) => file).sort()).toEqual(tests)
})

test('without a tier every file is run, by the project that runs it in its tier', async () => {
  const named = await listFiles('test')
  expect(named.map((row) => row.join(' ')).sort()).toEqual(inTiers.map((row) => row.join(' ')).sort())
})

test('what is known to take long is there, to be begun first', () => {
  const long = JSON.parse(readFileSync(path.join(ROOT, 'test/long-files.json'), 'utf8')) as Record<string, number>
  expect(Object.keys(long).length).toBeGreaterThan(0)
  expect(Object.keys(long).filter((file) => !tests.includes(file))).toEqual([])
})

test('what imports a test that runs apart from others runs apart itself', () => {
  const isIn = (file: string, ...projects: string[]) => projects.includes(projectOf.get(file) ?? '')
  // far fewer would mean that files or imports are not seen
  expect(Math.min(tests.filter((file) => isIn(file, 'alone')).length, imports.length)).toBeGreaterThan(5)
  expect(tests.filter((file) => isIn(file, 'kills')).length).toBeGreaterThan(10)
  const beside = imports.filter(
    ({ file, imported }) =>
      (isIn(imported, 'alone') && !isIn(file, 'alone')) || (isIn(imported, 'kills') && !isIn(file, 'kills', 'alone')),
  )
  expect(beside.map(({ file, imported }) => `${file} imports ${imported}: name it in ALONE or KILLS, too`)).toEqual([])
})

test('what imports a test has a process of its own', () => {
  for (const name of SHARED) expect([...projectOf.values()]).toContain(name)
  const shared = imports.filter(({ file }) => SHARED.includes(projectOf.get(file) ?? ''))
  expect(shared.map(({ file, imported }) => `${file} imports ${imported} and shares a process`)).toEqual([])
})
