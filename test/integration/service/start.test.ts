/**
 * A start that fails at any step ends all that had begun, and an orderly end is the start backwards: no file, lock, port or process
 * is left. Real parts: the real engine host runs where the start comes so far.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { ServiceSeams, TestedServiceOptions } from '#service/test-door.js'
import { type HeldResources, heldFor, untilReleased } from '../../support/service/held-resources.js'
import { createTestedService } from '../../support/service/with-plugins.js'
import { until } from '../../support/until.js'

/** In the order of their start. */
const PARTS = [
  'data directory',
  'database',
  'usage',
  'clock watch',
  'sweeper',
  'bodies',
  'engines',
  'planner',
  'exporter',
  'workers',
  'activity',
  'base models',
  'remote data',
  'responses',
  'recording',
  'gateway',
  'uploads',
  'loops',
  'batches',
  'evals',
  'samples',
  'probes',
  'outbox',
  'engine nodes',
  'demo',
  'server',
]

let dataDir: string
let before: HeldResources
let port: Server | null = null
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'trainyard-start-'))
  // a port that was closed counts for a moment longer
  await until(() => heldFor(dataDir).ports === 0, 'the end of the ports of the test before')
  before = heldFor(dataDir)
})
afterEach(async () => {
  await new Promise((closed) => (port === null ? closed(null) : port.close(closed)))
  port = null
  delete process.env[HUGE]
  // Node's own way to delete does not get into the depths of one of them
  execFileSync('rm', ['-rf', dataDir])
})

const start = (options: Partial<TestedServiceOptions> = {}) =>
  createTestedService({
    dataDir,
    port: 0,
    threads: 1,
    logger: createLogger({ level: 'silent' }),
    baseModels: ['trainyard/tiny-random'],
    ...options,
  })

describe.skipIf(process.platform !== 'linux')('a start (seen through /proc, so on Linux only)', () => {
  it('ends in the opposite order, and leaves nothing', async () => {
    const started: string[] = []
    const ended: string[] = []
    const watch = { started: (part: string) => started.push(part), ended: (part: string) => ended.push(part) }
    const service = await start({ seams: { watch } })
    try {
      expect(started).toEqual(PARTS)
      expect(heldFor(dataDir).files.length).toBeGreaterThan(0)
      expect(heldFor(dataDir).children.length).toBe(before.children.length + 1)
      expect(heldFor(dataDir).ports).toBe(before.ports + 1)
      expect(ended).toEqual([])
    } finally {
      // one that stays is in the way of all tests behind it
      await service.close(1000)
    }
    expect(ended).toEqual([...PARTS].reverse())
    await untilReleased(dataDir, before)
  })

  it.each(PARTS)('that fails behind "%s" ends that and all before it', async (last) => {
    const ended: string[] = []
    const watch: ServiceSeams['watch'] = {
      started: (part) => {
        if (part === last) throw new Error(`no further than ${part}`)
      },
      ended: (part) => ended.push(part),
    }
    await expect(start({ seams: { watch } })).rejects.toThrow(`no further than ${last}`)
    expect(ended).toEqual(PARTS.slice(0, PARTS.indexOf(last) + 1).reverse())
    await untilReleased(dataDir, before)
    // and the next start finds nothing in its way
    const service = await start()
    await service.close(1000)
    await untilReleased(dataDir, before)
  })

  it.each<[string, string, () => Partial<TestedServiceOptions> | Promise<Partial<TestedServiceOptions>>]>([
    ['half-written files too deep to be found', 'data_dir_unusable', withDeepFolder],
    ['a base model that is given twice', 'duplicate_base_model', () => ({ baseModels: [OWN, OWN] })],
    ['a database that is none', 'database_unreadable', withForeignDatabase],
    ['a disk without room for the tables', 'disk_full', () => ({ seams: { maxDatabasePages: 4 } })],
    ['a hub that has no address', 'invalid_setting', () => ({ hub: { endpoint: 'nowhere' } })],
    ['an address of another machine', 'cannot_listen', () => ({ host: '192.0.2.1' })],
    ['a port that is taken', 'port_in_use', withTakenPort],
  ])('that %s refuses leaves nothing', async (_, code, prepare) => {
    const options = await prepare()
    const held = heldFor(dataDir)
    const started: string[] = []
    const ended: string[] = []
    const watch = { started: (part: string) => started.push(part), ended: (part: string) => ended.push(part) }
    await expect(start({ ...options, seams: { ...options.seams, watch } })).rejects.toMatchObject({ code })
    expect(ended).toEqual(started.reverse())
    // which would be in the way of the look at the lock
    execFileSync('rm', ['-rf', join(dataDir, 'prepared')])
    await untilReleased(dataDir, held)
  })

  it('goes on when no engine can be had: who asks is told why, and is answered once there is one', async () => {
    process.env[HUGE] = 'x'.repeat(1024 ** 2)
    const service = await start()
    const ask = (): Promise<Response> =>
      fetch(`${service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.createdApiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'trainyard/tiny-random',
          messages: [{ role: 'user', content: 'Hello' }],
          max_tokens: 1,
        }),
      })
    const refused = await ask()
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      { error: { message: expect.stringContaining('could not be started: spawn E2BIG') } },
    ])
    delete process.env[HUGE]
    await until(async () => (await ask()).status === 200, 'an answer')
    await service.close(1000)
    await untilReleased(dataDir, before)
  })
})

/** Children are given what begins so. */
const HUGE = 'LC_TRAINYARD_TEST_HUGE'
const OWN = { name: 'mine', sourcePath: '/no/such/folder' }

/** Deeper than a path may be long. */
function withDeepFolder(): Partial<TestedServiceOptions> {
  mkdirSync(join(dataDir, 'prepared'))
  const name = 'x'.repeat(250)
  const script = `i=0; while [ $i -lt 20 ]; do mkdir ${name} && cd -P ./${name}; i=$((i+1)); done`
  execFileSync('sh', ['-c', script], { cwd: join(dataDir, 'prepared') })
  return {}
}

function withForeignDatabase(): Partial<TestedServiceOptions> {
  writeFileSync(join(dataDir, 'trainyard.sqlite3'), 'a poem, not a database\n'.repeat(500))
  return {}
}

async function withTakenPort(): Promise<Partial<TestedServiceOptions>> {
  const taken = createServer()
  port = taken
  await new Promise<void>((listening) => taken.listen(0, '127.0.0.1', listening))
  const address = taken.address()
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0 }
}
