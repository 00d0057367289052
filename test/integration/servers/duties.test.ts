/**
 * What servers on one PostgreSQL database do one at a time, and how they hear each other: advisory locks and notices, on connections of two servers.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import { systemIds } from '#base/util/ids.js'
import {
  createBlobGuard,
  createLastingDuty,
  inTurnOfStarts,
  onDuty,
  withBlobLocked,
} from '#plugins/postgres/storage/locks.js'
import { isServerConnected, notifyServers } from '#plugins/postgres/storage/open-postgres.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { claimDirectory } from '#service/storage/upkeep/ownership.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../support/local-postgres.js'
import { openPostgres } from '../../support/service/with-plugins.js'
import { until } from '../../support/until.js'

const BLOB = 'ff'.repeat(32)

describe.skipIf(!hasPostgres())(hasPostgres() ? 'servers on one database' : NO_POSTGRES, () => {
  let postgres: LocalPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  async function joinServer(
    address: string,
    heard: (string | null)[] = [],
  ): Promise<{ readonly id: string; readonly db: DatabaseHandle; close(): Promise<void> }> {
    const id = systemIds.uuid()
    const sharing = { id, onNotice: (payload: string | null) => void heard.push(payload) }
    const opened = await openPostgres(address, { maxConnections: 4, sharing })
    let isOpen = true
    const close = async () => {
      if (isOpen) await opened.close()
      isOpen = false
    }
    onTestFinished(close)
    return { id, db: opened.db, close }
  }

  it('that start at once on an empty one find the same tables, and one identity of it', async () => {
    const address = await postgres.createDatabase()
    const servers = await Promise.all([joinServer(address), joinServer(address), joinServer(address)])
    const root = await mkdtemp(join(tmpdir(), 'trainyard-claims-'))
    onTestFinished(() => rm(root, { recursive: true, force: true }))
    await Promise.all(
      servers.map(({ db }) => inTurnOfStarts(db, () => claimDirectory(db, root, () => systemIds.uuid()))),
    )
    const rows = await servers[0]?.db.selectFrom('database_identity').selectAll().execute()
    expect(rows).toMatchObject([{ mark: 3 }])
    expect(JSON.parse(await readFile(join(root, 'database-mark'), 'utf8'))).toEqual({
      database: rows?.[0]?.id,
      mark: 3,
    })
  })

  it('one at a time has a duty; the other does nothing meanwhile', async () => {
    const address = await postgres.createDatabase()
    const [one, two] = [await joinServer(address), await joinServer(address)]
    const { promise: isOver, resolve: end } = createDeferred<void>()
    const { promise: hasBegun, resolve: begin } = createDeferred<void>()
    const first = onDuty(one.db, 'sweep', async () => {
      begin()
      await isOver
      return 'swept'
    })
    await hasBegun
    expect(await onDuty(two.db, 'sweep', async () => 'swept too')).toBeNull()
    expect(await onDuty(two.db, 'placement', async () => 'another duty')).toBe('another duty')
    end()
    expect(await first).toBe('swept')
    expect(await onDuty(two.db, 'sweep', async () => 'swept')).toBe('swept')
    // what fails gives it up as well
    await expect(onDuty(one.db, 'sweep', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect(await onDuty(two.db, 'sweep', async () => 'swept')).toBe('swept')
  })

  it('a lasting duty stays with the server that has it, and goes to the other when its connection is gone', async () => {
    const address = await postgres.createDatabase()
    const [one, two] = [await joinServer(address), await joinServer(address)]
    const duties = [createLastingDuty(one.db, 'placement'), createLastingDuty(two.db, 'placement')] as const
    onTestFinished(async () => {
      for (const duty of duties) await duty.release()
    })
    const turn = async () => [await duties[0].run(async () => 'one'), await duties[1].run(async () => 'two')]
    for (let time = 0; time < 3; time += 1) expect(await turn()).toEqual(['one', null])
    // what fails does not give it up
    await expect(duties[0].run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect(await turn()).toEqual(['one', null])
    const cut = `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 8642003 and granted`
    await postgres.query(address, cut)
    await until(async () => (await duties[1].run(async () => 'two')) === 'two', 'the other to get it')
    // the first has noticed, and does nothing
    for (let time = 0; time < 3; time += 1) expect(await turn()).toEqual([null, 'two'])
    await duties[1].release()
    expect(await turn()).toEqual(['one', null])
  })

  it('one waits for the other that deletes or writes the same blob', async () => {
    const address = await postgres.createDatabase()
    const [one, two] = [await joinServer(address), await joinServer(address)]
    const done: string[] = []
    const { promise: isOver, resolve: end } = createDeferred<void>()
    const { promise: hasBegun, resolve: begin } = createDeferred<void>()
    const first = withBlobLocked(one.db, BLOB, async () => {
      begin()
      await isOver
      done.push('deleted')
    })
    await hasBegun
    const second = withBlobLocked(two.db, BLOB, async () => void done.push('written'))
    const waiting = "select pid from pg_locks where locktype = 'advisory' and not granted"
    await until(async () => (await postgres.query(address, waiting)).length > 0, 'the second to wait')
    await withBlobLocked(two.db, '0'.repeat(64), async () => void done.push('another'))
    end()
    await Promise.all([first, second])
    expect(done).toEqual(['another', 'deleted', 'written'])
  })

  it('a server locks two blobs at a time, and has its other connections for requests', async () => {
    const server = await joinServer(await postgres.createDatabase())
    const guard = createBlobGuard(server.db)
    const { promise: isOver, resolve: end } = createDeferred<void>()
    let running = 0
    let most = 0
    const uploads = Array.from({ length: 8 }, (_, n) =>
      guard(`${n}`.repeat(64), async () => {
        running += 1
        most = Math.max(most, running)
        await isOver
        running -= 1
      }),
    )
    await until(() => running === 2, 'two of them to begin')
    await server.db.selectFrom('models').select('id').execute()
    end()
    await Promise.all(uploads)
    expect(most).toBe(2)
  })

  it('each hears what the other says, is told when it may have missed something, and is seen until its connection ends', async () => {
    const address = await postgres.createDatabase()
    const heard: (string | null)[] = []
    const [one, two] = [await joinServer(address, heard), await joinServer(address)]
    await notifyServers(two.db, 'hello')
    await until(() => heard.includes('hello'), 'the notice')
    await postgres.query(
      address,
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'trainyard ${one.id}'`,
    )
    await until(() => heard.includes(null), 'it to hear that it was away')
    await notifyServers(two.db, 'again')
    await until(() => heard.includes('again'), 'the notice after that')
    expect(await isServerConnected(two.db, one.id)).toBe(true)
    await one.close()
    await until(async () => !(await isServerConnected(two.db, one.id)), 'it to be gone')
  })
})
