/**
 * Files that commands were told to write, where the disk or the path does not let them: the error names the file, what was there
 * before stays, and nothing half-written takes the final name. A limit on the size of files stands for a disk that is nearly full:
 * a write across it takes less than it was given, the next one fails.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { InterruptedError } from '#cli/terminal/errors.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'
import { checkpoint, MODEL, page, scriptedService } from '../../support/service/scripted-service.js'

let folder: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-written-'))
  service = await createTestService()
  const modelId = await service.createModel('written')
  const json = { model_id: modelId, trajectory_groups: [sampleGroup()] }
  await service.waitForJob((await service.json<{ id: string }>('/v1/preview/training-jobs', { json })).body.id)
  await writeFile(join(folder, 'prompts.jsonl'), '{"prompt":"a","answer":"b"}\n')
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
})

const environment = () => ({ TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey })
const cli = (argv: readonly string[], signal?: AbortSignal) =>
  runCli(argv, { fetch, env: environment(), ...(signal === undefined ? {} : { signal }) })
const rollout = (out: string) => [
  'rollout',
  'written',
  '--prompts',
  join(folder, 'prompts.jsonl'),
  '-n',
  '2',
  '--max-tokens',
  '2',
  '--out',
  out,
]
const backup = (file: string) => ['backup', '--out', file, '--data-dir', service.dataDir]
/** Runs the command where no file may be larger than `kilobytes`. */
const limited = (kilobytes: number, argv: readonly string[]) =>
  promisify(execFile)(
    'bash',
    ['-c', `ulimit -f ${kilobytes}; exec "$@"`, 'bash', process.execPath, 'bin/trainyard.js', ...argv],
    {
      env: { ...process.env, HOME: folder, ...environment() },
    },
  ).then(
    ({ stderr }) => ({ code: 0, stderr }),
    (error: { code: number; stderr: string }) => ({ code: error.code, stderr: error.stderr }),
  )

test.each([
  ['rollout', rollout],
  ['backup', backup],
])('%s into a folder is refused before the work', async (_name, command) => {
  const { exitCode, stderr } = await cli([...command(folder), ...(command === backup ? ['--force'] : [])])
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(`"${folder}" is a folder, expected a file`)])
})

test('a path through a file, or a folder that is not there, is said as that', async () => {
  const file = join(folder, 'prompts.jsonl')
  const download = await cli(['checkpoints', 'download', 'written', '--out', file])
  expect([download.exitCode, download.stderr]).toEqual([2, expect.stringContaining('a part of its path is a file')])
  const missing = await cli(rollout(join(folder, 'nowhere', 'groups.jsonl')))
  expect([missing.exitCode, missing.stderr]).toEqual([2, expect.stringContaining('its folder does not exist')])
})

test('a rollout goes through links and into what is no plain file, and a full disk leaves what was there', async () => {
  const [target, link] = [join(folder, 'groups.jsonl'), join(folder, 'link.jsonl')]
  await writeFile(target, 'old', { mode: 0o640 })
  await symlink(target, link)
  const full = await limited(1, rollout(link))
  expect([full.code, full.stderr]).toEqual([
    2,
    expect.stringContaining(`"${link}" cannot be written: it would be larger`),
  ])
  expect(await readFile(target, 'utf8')).toBe('old')
  expect(await cli(rollout(link))).toMatchObject({ exitCode: 0 })
  expect(await readFile(target, 'utf8')).toContain('"trajectories"')
  expect((await stat(target)).mode & 0o777).toBe(0o640)
  expect(await readFile(link, 'utf8')).toBe(await readFile(target, 'utf8'))
  expect((await readdir(folder)).filter((name) => name.includes('partial'))).toEqual([])
  const device = await cli(rollout('/dev/full'))
  expect([device.exitCode, device.stderr]).toEqual([
    6,
    expect.stringContaining('"/dev/full" cannot be written: the disk is full'),
  ])
})

test('a checkpoint whose last bytes do not fit is no checkpoint; the same command goes on when there is room', async () => {
  const bytes = Buffer.alloc(3000, 7)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const files = [{ name: 'adapter_model.safetensors', size_bytes: bytes.length, sha256 }]
  const path = `/v1/preview/models/${MODEL.id}/checkpoints`
  const { fetch: answer } = scriptedService({
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET ${path}`]: { body: page([checkpoint(1)]) },
    [`GET ${path}/1/files`]: { body: { model_id: MODEL.id, step: 1, files } },
    [`GET ${path}/1/files/adapter_model.safetensors`]: () => new Response(bytes),
  })
  const server = createServer((request, response) => {
    void (async () => {
      const given = await answer(`http://127.0.0.1${request.url}`, { method: request.method ?? 'GET' })
      response.setHeader('content-type', given.headers.get('content-type') ?? 'application/octet-stream')
      response.end(Buffer.from(await given.arrayBuffer()))
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const out = join(folder, 'adapters')
    const argv = ['checkpoints', 'download', MODEL.name, '--out', out, '--server', url]
    const full = await limited(2, argv)
    expect([full.code, full.stderr]).toEqual([2, expect.stringContaining('cannot be written')])
    expect(await readdir(out)).toEqual([`${MODEL.name}-step1.partial`])
    expect(await cli(argv)).toMatchObject({ exitCode: 0 })
    expect(await readFile(join(out, `${MODEL.name}-step1`, 'adapter_model.safetensors'))).toEqual(bytes)
  } finally {
    server.close()
  }
})

test('a backup that does not fit, or is stopped, leaves the one of yesterday and nothing else', async () => {
  const place = join(folder, 'backups')
  await mkdir(place)
  const file = join(place, 'today.tar')
  await writeFile(file, 'yesterday')
  const whole = join(folder, 'whole.tar')
  expect(await cli(backup(whole))).toMatchObject({ exitCode: 0 })
  // room for the copy of the database, not for all
  const full = await limited(Math.floor((await stat(whole)).size / 1024) - 1, [...backup(file), '--force'])
  expect([full.code, full.stderr]).toEqual([2, expect.stringContaining(`"${file}" cannot be written`)])
  const stopped = await cli([...backup(file), '--force'], AbortSignal.abort(new InterruptedError('SIGINT')))
  expect(stopped.exitCode).toBe(130)
  expect([await readdir(place), await readFile(file, 'utf8')]).toEqual([['today.tar'], 'yesterday'])
  expect((await readdir(service.dataDir)).filter((name) => name.startsWith('backup-'))).toEqual([])
})
