/**
 * The packed package as a stranger gets it: `npm i trainyard.tgz` in an empty folder from the registry, then `version`, `serve`
 * and one chat. Home, temporary folder and npm's cache are of its own, and `CI` is not set.
 *
 * Only npm's user settings are this machine's (which registry, where Node's headers are), because no host but the registry
 * may be in reach: better-sqlite3 is then compiled. Skipped when the registry cannot be reached.
 */
import { type ExecFileException, execFile, execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { ChatResponse } from '../../src/contract/wire/chat-completions.js'
import { packedPackage } from '../support/packed-package.js'
import { cli, createHome, startCli } from '../support/service/cli-process.js'

/** SQLite takes a processor one to two minutes to compile, and where twenty others want it, half an hour. */
const INSTALL_MS = 90 * 60_000
const home = createHome()
const project = join(home.path, 'project')
const packageRoot = join(project, 'node_modules/trainyard')
const env = {
  PATH: process.env['PATH'],
  HOME: home.path,
  TMPDIR: join(home.path, 'tmp'),
  NPM_CONFIG_USERCONFIG: process.env['NPM_CONFIG_USERCONFIG'] ?? join(homedir(), '.npmrc'),
  npm_config_cache: join(home.path, 'npm'),
  npm_config_update_notifier: 'false',
  // one lost connection is no fault of the package
  npm_config_fetch_retries: '5',
  NODE_EXTRA_CA_CERTS: process.env['NODE_EXTRA_CA_CERTS'],
  // SQLite takes its compiler a minute and a half; the little that is asked here needs none of what it does then
  CFLAGS: '-O0',
  CXXFLAGS: '-O0',
}
for (const folder of [env.TMPDIR, project]) mkdirSync(folder)
afterAll(() => home.remove())

function canReachRegistry(): boolean {
  try {
    execFileSync('npm', ['ping', '--fetch-retries', '0', '--fetch-timeout', '20000'], { env, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function npm(argv: readonly string[], cwd: string): Promise<{ readonly exitCode: number; readonly output: string }> {
  return new Promise((done) => {
    execFile('npm', argv, { cwd, env, maxBuffer: 1 << 24 }, (error: ExecFileException | null, stdout, stderr) =>
      done({ exitCode: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    )
  })
}

describe.skipIf(!canReachRegistry())('installed from the registry (skipped when it cannot be reached)', () => {
  test(
    'it installs, tells its version, serves and answers; nothing is fetched from elsewhere',
    async () => {
      const { file } = await packedPackage()
      writeFileSync(join(project, 'package.json'), '{"name":"stranger","version":"1.0.0","private":true}\n')
      const install = await npm(['install', '--no-audit', '--no-fund', file], project)
      expect(install.exitCode, install.output).toBe(0)

      const own = { TMPDIR: env.TMPDIR }
      const version = await cli(['version', '--json'], { home: home.path, packageRoot, env: own })
      expect(version.exitCode, version.stderr).toBe(0)
      const server = startCli(['serve', '--json', '--port', '0'], { home: home.path, packageRoot, env: own })
      try {
        const { url } = JSON.parse((await server.waitForStdout(/\n/)).trim()) as { url: string }
        const words = ['chat', 'trainyard/spark', 'Say hello.', '--max-tokens', '8', '--json']
        const answer = await cli(words, { home: home.path, packageRoot, env: { ...own, TRAINYARD_URL: url } })
        expect(answer.exitCode, answer.stderr).toBe(0)
        const { choices } = JSON.parse(answer.stdout) as ChatResponse
        expect(choices[0]?.message.content).toMatch(/[a-z]/i)
      } finally {
        server.child.kill('SIGTERM')
        await server.finished
      }
    },
    INSTALL_MS,
  )
})
