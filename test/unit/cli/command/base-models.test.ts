/**
 * `base-models list|add|remove` against a real service and a hub on loopback, with the command line in this process.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { writeServerRecord } from '#cli/config/server-record.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { type FakeHub, filesOf, startFakeHub } from '../../../support/service/fake-hub.js'
import { emptyHome, type RunOptions, runCli } from '../../../support/service/run-cli.js'

let folder: string
let tiny: string
let hub: FakeHub
let service: TestService

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  tiny = join(folder, 'my-model')
  await mkdir(tiny)
  tiny = await ensureTinyRandomModel(tiny)
  hub = await startFakeHub()
  hub.repositories.set('org/tiny', filesOf(tiny))
  service = await createTestService({ hub: { endpoint: hub.url }, tuning: { downloadRetryMs: 5 } })
})
beforeEach(() => {
  hub.faults.hold = null
})
afterAll(async () => {
  hub.close()
  await service.dispose()
  await rm(folder, { recursive: true })
})

function run(argv: readonly string[], options: RunOptions = {}) {
  const env = { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey, HOME: emptyHome() }
  return runCli(['base-models', ...argv], { fetch, ...options, env })
}

test('add waits for the download; list shows it in 80 columns; remove takes it away again', async () => {
  const added = await run(['add', 'org/tiny'])
  expect(added).toMatchObject({ exitCode: 0, stderr: '' })
  expect(added.stdout).toMatch(/^Added org\/tiny \(llama, \d+ k parameters, context 2048, \d+ kB\)\n$/)
  const table = (await run(['list'], { tty: true, columns: 80 })).stdout.split('\n')
  expect(table[0]).toMatch(/^NAME +ARCH +PARAMS +CONTEXT +SIZE +PRECISION +SERVED AS$/)
  expect(table.find((line) => line.startsWith('org/tiny'))).toMatch(/llama +\d+ k +2048 +\d+ kB +float32 +\S+$/)
  expect(Math.max(...table.map((line) => line.length))).toBeLessThanOrEqual(80)
  expect((await run(['list', '-q'])).stdout).toBe('trainyard/tiny-random\norg/tiny\n')
  expect(await run(['add', 'org/tiny'])).toMatchObject({
    exitCode: 5,
    stderr: expect.stringContaining('exists already'),
  })
  expect((await run(['remove', 'org/tiny'])).exitCode).toBe(2)
  expect((await run(['remove', 'org/tiny', '--yes', '--json'])).stdout).toBe('{"deleted":["org/tiny"]}\n')
  expect((await run(['remove', 'org/tiny', '--yes'])).exitCode).toBe(3)
})

test('the address of a repository works; --no-wait returns at once and Ctrl-C leaves the download to the server', async () => {
  hub.faults.hold = new Promise(() => undefined)
  const started = await run(['add', `${hub.url}/org/tiny`, '--name', 'slow', '--no-wait'])
  expect(started).toMatchObject({ exitCode: 0, stdout: 'Downloading slow\n' })
  expect((await run(['list'])).stdout).toMatch(/^slow\t.*\tdownloading$/m)
  const controller = new AbortController()
  const { InterruptedError } = await import('#cli/terminal/errors.js')
  // it asks again and again how far the download is: what it asks for the third time, it waits for
  let looks = 0
  const looking: typeof fetch = (input, init) => {
    if (init?.method === undefined || init.method === 'GET') looks += 1
    if (looks === 3) controller.abort(new InterruptedError('SIGINT'))
    return fetch(input, init)
  }
  const detached = await run(['add', 'org/tiny', '--name', 'slow'], { signal: controller.signal, fetch: looking })
  expect(detached.exitCode).toBe(130)
  expect(detached.stderr).toContain('Detached: the server goes on downloading slow')
  expect((await run(['remove', 'slow', '--yes'])).exitCode).toBe(0)
})

test('a folder is linked where the server of this machine takes it in; elsewhere the error says where it must be', async () => {
  expect(await run(['add', tiny])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('not known here') })
  const paths = { stateDir: join(emptyHome(), '.local/state/trainyard') }
  const record = { url: service.url, apiKeyFile: service.apiKeyFile, pid: process.pid }
  const forget = await writeServerRecord({ ...paths, configFile: '', cacheDir: '', dataDir: '' }, record)
  const added = await run(['add', tiny, '--name', 'mine', '--json'])
  expect(added.exitCode, added.stderr).toBe(0)
  expect(JSON.parse(added.stdout)).toMatchObject({ name: 'mine', source: 'local', status: 'ready' })
  expect(await run(['add', tiny, '--name', 'copied', '--copy'])).toMatchObject({ exitCode: 0 })
  // what the server finds is said of what the person named
  const list = join(folder, 'mails.jsonl')
  await writeFile(list, '{}\n')
  const refused = await run(['add', list])
  expect(refused).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining(`"${list}" is neither a GGUF file nor`),
  })
  expect(refused.stderr).not.toContain('incoming-')
  await forget()
})

test('what is wrong with the command line is said before anything is sent', async () => {
  expect((await run(['add', './nowhere'])).stderr).toContain('./nowhere does not exist')
  expect((await run(['add', 'model.gguf'])).stderr).toContain('model.gguf does not exist')
  expect((await run(['add', tiny, '--revision', 'main'])).stderr).toContain('--revision is for hub repositories')
  expect((await run(['add', 'org/none'])).exitCode).toBe(3)
})
