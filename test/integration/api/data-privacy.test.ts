/**
 * The data directory is its owner's alone, also when it was there before with wider modes; and a lost key is replaced on the
 * machine where the data lies, with the server stopped or running.
 */
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createLocalKey } from '#plugins/data-directory.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'

let dataDir: string
let service: TestService | null = null
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
})
afterEach(async () => {
  await service?.close(500)
  service = null
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

/** Everything below the folder, itself included, that anybody but its owner may touch. */
async function openToOthers(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = [folder, ...entries.map((entry) => join(entry.parentPath, entry.name))]
  const modes = await Promise.all(paths.map(async (path) => [path, (await stat(path)).mode & 0o777] as const))
  return modes
    .filter(([, mode]) => (mode & 0o077) !== 0)
    .map(([path, mode]) => `${relative(folder, path)} ${mode.toString(8)}`)
}

const whoami = (key: string) =>
  service?.fetch('/v1/whoami', { headers: { authorization: `Bearer ${key}` } }).then((answer) => answer.status)

describe.skipIf(process.platform === 'win32')('modes (Windows has none)', () => {
  it('folders are 0700 and files 0600, also in a folder that was open before', async () => {
    service = await createTestService({ dataDir, scripted: false, threads: 1 })
    await service.fetch('/v1/files?filename=x.jsonl', { method: 'POST', body: '{"messages":[]}\n' })
    const answer = await service.json('/v1/chat/completions', {
      json: { messages: [{ role: 'user', content: 'Count.' }], max_tokens: 2 },
    })
    expect(answer.status).toBe(200)
    expect(await openToOthers(dataDir)).toEqual([])
    await service.close(500)

    for (const entry of await readdir(dataDir, { recursive: true, withFileTypes: true })) {
      await chmod(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644)
    }
    await chmod(dataDir, 0o755)
    await writeFile(join(dataDir, 'mine.txt'), 'not the service’s', { mode: 0o644 })
    service = await createTestService({ dataDir })
    expect(await openToOthers(dataDir)).toEqual(['mine.txt 644'])
  })

  it('an empty folder with wide modes is narrowed before anything is in it', async () => {
    const open = join(dataDir, 'open')
    await mkdir(open, { mode: 0o755 })
    service = await createTestService({ dataDir: open })
    expect(await openToOthers(open)).toEqual([])
  })
})

describe('keys', () => {
  it('are words of at least 40 characters, and the file holds nothing else', async () => {
    service = await createTestService({ dataDir })
    expect(service.apiKey).toMatch(/^ty_[0-9A-Za-z]{43}$/)
    expect(await readFile(service.apiKeyFile, 'utf8')).toBe(service.apiKey)
    expect(service.isApiKeyLost).toBe(false)
  })

  it('a lost key file is told, replaced beside the running server, and found again', async () => {
    const lines: string[] = []
    service = await createTestService({ dataDir })
    const { apiKey: first } = service
    await rm(service.apiKeyFile)
    const logger = createLogger({ destination: { write: (line) => void lines.push(line) } })
    service = await service.restart({ logger })
    expect(service.createdApiKey).toBeNull()
    expect(service.isApiKeyLost).toBe(true)
    expect(lines.join('')).toContain('api_key.file_lost')

    const made = await runCli(['keys', 'create', '--data-dir', dataDir, '--json'])
    expect(made).toMatchObject({ exitCode: 0 })
    const { key, api_key_file: file } = JSON.parse(made.stdout) as { key: string; api_key_file: string }
    expect(file).toBe(service.apiKeyFile)
    expect(await readFile(file, 'utf8')).toBe(key)
    expect([await whoami(key), await whoami(first), await whoami(`${key}x`)]).toEqual([200, 200, 401])
    service = await service.restart()
    expect(service.isApiKeyLost).toBe(false)
  })

  it('a file that holds another text is lost too; a good one is left alone', async () => {
    service = await createTestService({ dataDir })
    await writeFile(service.apiKeyFile, 'something else')
    service = await service.restart()
    expect(service.isApiKeyLost).toBe(true)
    const first = await createLocalKey(dataDir)
    expect(first.keyFile).toBe(service.apiKeyFile)
    await service.close(500)
    // and without a server
    const second = await createLocalKey(dataDir)
    expect(second.keyFile).toBeNull()
    expect(await readFile(service.apiKeyFile, 'utf8')).toBe(first.key)
    service = await createTestService({ dataDir })
    expect([await whoami(first.key), await whoami(second.key)]).toEqual([200, 200])
  })

  it('a folder without a service is exit 3, and nothing is made in it', async () => {
    const { exitCode, stderr } = await runCli(['keys', 'create', '--data-dir', dataDir])
    expect({ exitCode, stderr }).toEqual({ exitCode: 3, stderr: expect.stringContaining('is not the data directory') })
    expect(await readdir(dataDir)).toEqual([])
  })
})
