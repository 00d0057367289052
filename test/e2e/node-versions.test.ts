/**
 * The packed package on other versions of Node.js: installed by that version's npm scripts from the registry, then the demo trains.
 *
 * A heavy check, over a minute for each: `CI_HEAVY=1 .ci/run` fetches those versions into `.cache/nodes`; skipped without.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { packedPackage } from '../support/packed-package.js'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const NODES = join(ROOT, '.cache/nodes')
const isHeavy = process.env['CI_HEAVY'] === '1'
const versions = isHeavy && existsSync(NODES) ? readdirSync(NODES) : []
const folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

describe.skipIf(versions.length === 0)('other versions of Node.js (CI_HEAVY=1)', () => {
  test.each(versions)(
    'Node.js %s installs the package and trains',
    async (version) => {
      const project = join(folder, version)
      mkdirSync(project)
      const path = [join(NODES, version, 'node_modules/node/bin'), process.env['PATH']].join(delimiter)
      const options = { cwd: project, env: { ...process.env, CI: undefined, PATH: path }, maxBuffer: 1 << 24 }
      const { stdout: told } = await run('node', ['--version'], options)
      expect(told).toMatch(new RegExp(`^v${version}\\.`))
      const { file } = await packedPackage()
      await run('npm', ['install', '--no-fund', '--no-audit', '--prefix', project, file], options)
      const demo = ['demo', '--seed', '1', '--steps', '2', '--json', '--data-dir', join(project, 'data')]
      const { stdout } = await run(join(project, 'node_modules/.bin/trainyard'), demo, options)
      const events = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { object: string })
      expect(events.filter(({ object }) => object === 'demo.step')).toHaveLength(2)
    },
    20 * 60_000,
  )
})
