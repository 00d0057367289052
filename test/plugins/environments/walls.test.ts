/** Walls around a program (`--isolate`): one that tries to get through, as an agent at addresses of a real server. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { askedModel } from '#plugins/environments/episode.js'
import { openEnvironment } from '#plugins/environments/open.js'
import { createClient } from '#sdk/client/client.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { episodesOf } from './support/episodes.js'

const prisoner = join(import.meta.dirname, 'support', 'prisoner.mjs')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-walls-'))
const dataDir = join(folder, 'data')
const tasksFile = join(folder, 'asks.jsonl')
writeFileSync(tasksFile, `${JSON.stringify({ prompt: 'get out' })}\n`)
const hasWalls =
  process.platform === 'linux' &&
  spawnSync('unshare', [
    '--user',
    '--map-root-user',
    '--net',
    '--mount',
    '--pid',
    '--fork',
    '--mount-proc',
    'ip',
    'link',
  ]).status === 0

describe.skipIf(!hasWalls)('--isolate (skipped where `unshare` makes no namespaces)', () => {
  let service: TestService
  const listener = createServer()
  beforeAll(async () => {
    service = await createTestService({ trainWorkers: 0 })
    await service.createModel('m')
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    mkdirSync(join(dataDir, 'python', 'x'), { recursive: true })
    writeFileSync(join(dataDir, 'api-key'), 'secret')
  })
  afterAll(async () => {
    listener.close()
    await service.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  async function tryOut(isolate: boolean, tries: readonly string[]) {
    const model = askedModel(
      createClient({ baseUrl: service.url, apiKey: service.apiKey, timeoutMs: 200_000 }),
      'm',
      {},
    )
    const address = listener.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const source = await openEnvironment(`agent:"${process.execPath}" "${prisoner}" {prompt}`, {
      ...{ tasksFile, isJudgedElsewhere: true, isolate, dataDir },
      variables: {
        ...{ HOST_PORT: `${port}`, SERVER: service.url, DATA: dataDir, PARENT: `${process.pid}` },
        ...{ KEY_FILE: join(dataDir, 'api-key'), TRIES: tries.join(' ') },
      },
    })
    try {
      const judge = async () => undefined
      const { episodes } = await episodesOf(source, model, { judge, episodeTimeoutMs: 240_000 })
      const [task] = await source.tasks('train', 0, 1)
      const { metadata, choices } = await episodes.play(task!, { group: 'g', index: 0 })
      expect(choices[0]?.token_ids?.length).toBeGreaterThan(0)
      const answered = existsSync(join(String(metadata['folder']), 'answer.txt'))
      return { said: JSON.parse(String(metadata['output'])) as Record<string, string>, answered }
    } finally {
      await source.close()
    }
  }

  it('lets nothing through but questions to the model, and its own folder', { timeout: 280_000 }, async () => {
    const wanted = {
      host: 'failed: ECONNREFUSED',
      world: 'failed: ENETUNREACH',
      server: expect.stringMatching(/^failed/),
      api: 'failed: 403',
      climbing: 'failed: 403',
      key: 'failed: ENOENT',
      unmounting: expect.stringMatching(/^failed/),
      unmountingBelow: expect.stringMatching(/^failed/),
      killing: 'failed: ESRCH',
      spying: expect.stringMatching(/^failed: \d processes$/),
      link: expect.stringMatching(/^failed/),
      file: 'did: undefined',
    }
    const { said, answered } = await tryOut(true, Object.keys(wanted))
    expect(said).toEqual({ ...wanted, asking: '200' })
    expect(answered).toBe(true)
    // and all stands as before
    expect(readFileSync(join(dataDir, 'api-key'), 'utf8')).toBe('secret')
  })

  it('is what holds it: without, these succeed', { timeout: 280_000 }, async () => {
    const open = ['host', 'server', 'key', 'spying', 'file']
    const { said } = await tryOut(false, open)
    for (const name of [...open, 'asking']) expect(said[name], name).toMatch(/^(did|200)/)
  })
})
