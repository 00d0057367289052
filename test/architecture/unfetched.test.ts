/**
 * Tests of what `.ci/run` fetches into `.cache` can be collected where nothing was fetched: `npm ci && npm test` on a fresh machine.
 *
 * The body of a skipped block runs while a file is collected, so a file that it reads must not be missed; `.ci/run` would not show it,
 * for it fetches first. The files are collected, not run, in a copy of the repository without the folder.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from './source-tree.js'

/** `.cache` itself, or what finds it: programs of the S3 environment, the real model. */
const FETCHED = /\.cache['/]|\/local-s3\.js|\/torch-python\.js|findSmolLm2/
const LEFT_OUT = new Set(['.git', '.cache', 'node_modules', 'dist', 'coverage'])

const tests = readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => path.posix.join('test', name.replaceAll(path.sep, '/')))
  .filter((name) => name.endsWith('.test.ts') && !name.startsWith('test/architecture/'))
const readers = tests.filter((name) => FETCHED.test(readFileSync(path.join(ROOT, name), 'utf8')))

let copy: string
beforeAll(() => {
  copy = mkdtempSync(path.join(tmpdir(), 'trainyard-unfetched-'))
  // copied, not linked: a module knows its folder by its real path
  for (const name of readdirSync(ROOT)) {
    if (!LEFT_OUT.has(name)) cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true })
  }
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'), 'junction')
})
afterAll(() => rmSync(copy, { recursive: true, force: true, maxRetries: 20 }))

test('tests that need what is fetched are collected without it', async () => {
  expect(readers.length).toBeGreaterThan(10)
  const vitest = path.join(copy, 'node_modules/vitest/vitest.mjs')
  // what this run tells its own workers is not for that one
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VITEST|TINYPOOL)/.test(name)))
  // one after the other in a process: what they all import is imported once
  const collecting = promisify(execFile)(process.execPath, [vitest, 'list', '--no-isolate', ...readers], {
    cwd: copy,
    env,
    maxBuffer: 2 ** 26,
  })
  // skipped tests are not listed; one file that skips only some says that the files were found
  expect((await collecting).stdout).toContain('text-model.test.ts')
})
