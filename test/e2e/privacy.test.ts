/**
 * What runs unasked: nothing. A service that serves, chats and trains writes no file outside its data directory and speaks to
 * no address outside this machine; neither does the package as a library.
 *
 * Every process has a home and a temporary folder of its own, and an environment without `CI`, which would switch ONNX
 * Runtime's telemetry off.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { TrainingJob } from '../../src/contract/wire/training-jobs.js'
import { watchSockets } from '../support/outgoing-sockets.js'
import { cli, createHome, startCli } from '../support/service/cli-process.js'

const ROOT = join(import.meta.dirname, '../..')
const DATASET = Array.from({ length: 8 }, (_, i) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `say ${i}` },
      { role: 'assistant', content: `it is ${i}` },
    ],
  }),
).join('\n')

let home: ReturnType<typeof createHome>
let env: { readonly TMPDIR: string }
beforeEach(() => {
  home = createHome()
  env = { TMPDIR: join(home.path, 'tmp') }
  mkdirSync(env.TMPDIR)
})
afterEach(() => home.remove())

/** Files below the home, which holds the temporary folder too, except those below `dataDir`, where folders come and go. */
function strayFiles(dataDir: string, folder = home.path): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (path === dataDir) return []
    return entry.isDirectory() ? strayFiles(dataDir, path) : [relative(home.path, path)]
  })
}

describe.skipIf(process.platform !== 'linux')('nothing runs unasked (seen through /proc, so on Linux only)', () => {
  test('a service that serves, chats and trains; and the commands that ask it to', async () => {
    const sockets = watchSockets()
    const options = { home: home.path, env, wrapper: sockets.wrapper }
    const server = startCli(['serve', '--json', '--port', '0', '--log-level', 'warn'], options)
    const ready = JSON.parse(await server.waitForStdout(/\n/)) as { pid: number; url: string; api_key_file: string }
    const dataDir = join(ready.api_key_file, '..')
    expect(dataDir.startsWith(home.path)).toBe(true)
    try {
      sockets.watch(ready.pid)
      const run = async (argv: readonly string[], stdin?: string): Promise<string> => {
        const input = stdin === undefined ? {} : { stdin }
        const result = await cli([...argv, '--json'], {
          ...options,
          env: { ...env, TRAINYARD_URL: ready.url },
          ...input,
        })
        expect(result.exitCode, `${argv.join(' ')}: ${result.stderr}`).toBe(0)
        return result.stdout
      }
      await run(['models', 'create', 'mine', '--base-model', 'trainyard/spark'])
      await run(['chat', 'mine', 'Say hello.', '--max-tokens', '8'])
      const job = JSON.parse(await run(['train', 'sft', 'mine', '--file', '-'], DATASET)) as TrainingJob
      await run(['jobs', 'wait', job.id])
      await run(['chat', 'mine', 'Say hello.', '--max-tokens', '8'])
      // how the command line finds a local server; gone when the server stops
      expect(strayFiles(dataDir)).toEqual([expect.stringMatching(/^\.local\/state\/trainyard\/[^/]+(\/[^/]+)*\.json$/)])
    } finally {
      process.kill(ready.pid, 'SIGTERM')
      await server.finished
    }
    expect(strayFiles(dataDir)).toEqual([])
    expect(sockets.stop(), `seen by ${sockets.method}`).toEqual([])
  })

  test('the package as a library', async () => {
    const sockets = watchSockets()
    const dataDir = join(home.path, 'data')
    const script = join(dataDir, 'script.mjs')
    mkdirSync(dataDir)
    const index = pathToFileURL(join(ROOT, 'dist/bundles/index.js')).href
    writeFileSync(
      script,
      `import { createService } from '${index}'
       const service = await createService({ dataDir: '${dataDir}', port: 0, baseModels: ['trainyard/tiny-random'] })
       const messages = [{ role: 'user', content: 'Count.' }]
       const response = await fetch(service.url + '/v1/chat/completions', {
         method: 'POST',
         headers: { authorization: 'Bearer ' + service.createdApiKey, 'content-type': 'application/json' },
         body: JSON.stringify({ model: 'trainyard/tiny-random', messages, max_tokens: 4 }),
       })
       console.log(response.status)
       await service.close(5000)`,
    )
    const [program, ...argv] = [...sockets.wrapper, process.execPath, script]
    const child = spawn(program!, argv, { env: { PATH: process.env['PATH'], HOME: home.path, ...env } })
    if (child.pid !== undefined) sockets.watch(child.pid)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    const exitCode = await new Promise((ended) => child.once('close', ended))
    expect(exitCode, output).toBe(0)
    expect(output).toContain('200')
    expect(strayFiles(dataDir)).toEqual([])
    expect(sockets.stop(), `seen by ${sockets.method}`).toEqual([])
  })
})
