/**
 * What is PostgreSQL's alone: transactions beside each other on two servers' connections, a database that goes away and comes back,
 * a commit whose answer is lost, and what a start refuses.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { loadDriver } from '#plugins/postgres/storage/driver.js'
import { claimNextJob, createJob } from '#service/queue/queue.js'
import { addUsage } from '#service/storage/access/usage-days.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { countRetries, inTransaction } from '#service/storage/in-transaction.js'
import { insertModel } from '#service/storage/models.js'
import type { RemoteDatabaseOptions } from '#service/storage/remote-database.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { cli, createHome } from '../../../support/service/cli-process.js'
import { createTestService, STAND_INS, sampleGroup } from '../../../support/service/create-test-service.js'
import { newJobOf, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'
import { createTestedService, openPostgres } from '../../../support/service/with-plugins.js'
import { until } from '../../../support/until.js'

const KEYS = 12
const REPEATS = 5

describe.skipIf(!hasPostgres())(hasPostgres() ? 'PostgreSQL' : NO_POSTGRES, () => {
  let postgres: LocalPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  async function open(address: string, options: Partial<RemoteDatabaseOptions> = {}): Promise<DatabaseHandle> {
    const opened = await openPostgres(address, { maxConnections: 8, ...options })
    onTestFinished(() => opened.close())
    return opened.db
  }

  /** Two pools on one database, as two servers have them. */
  async function openTwice(): Promise<readonly [DatabaseHandle, DatabaseHandle]> {
    const address = await postgres.createDatabase()
    return [await open(address), await open(address, { isBeside: true })]
  }

  const addModel = async (db: DatabaseHandle, name: string): Promise<string> => {
    const id = systemIds.uuid()
    await insertModel(db, { id, entity: 'local', project: 'p', name, baseModel: 'base', runId: systemIds.uuid() })
    return id
  }

  async function serve(address: string, options: object = {}): ReturnType<typeof createTestService> {
    const service = await createTestService({ database: address, ...options })
    onTestFinished(() => service.dispose())
    return service
  }

  test('a password comes from PGPASSFILE without a word of the driver, and where it has none, that is said', async () => {
    const address = await postgres.createDatabase()
    await open(address)
    await postgres.query(address, "create role guarded superuser login password 'opens'")
    const [{ hba_file = '' } = {}] = await postgres.query<{ hba_file?: string }>(address, 'show hba_file')
    await writeFile(hba_file, `local all guarded scram-sha-256\n${await readFile(hba_file, 'utf8')}`)
    await postgres.query(address, 'select pg_reload_conf()')
    const home = createHome()
    onTestFinished(() => home.remove())
    const file = join(home.path, 'passwords')
    const database = address.replace('tests@', 'guarded@')
    const create = async (line: string) => {
      await writeFile(file, line, { mode: 0o600 })
      const argv = ['keys', 'create', '--local', '--database', database, '--data-dir', home.path, '-q']
      return cli(argv, { home: home.path, env: { PGPASSFILE: file } })
    }
    // the server reads its file again behind its answer
    const refused = await until(async () => {
      const ended = await create('localhost:*:*:somebody:opens\n')
      return ended.exitCode === 0 ? null : ended
    }, 'the database asks for a password')
    expect(refused.stderr).toContain(`the database asks for a password, and "${file}" has no line for`)
    const made = await create('localhost:*:*:guarded:opens\n')
    expect([made.exitCode, made.stderr, made.stdout]).toEqual([0, '', expect.stringMatching(/^ty_\w+\n$/)])
  })

  describe('transactions beside each other', () => {
    test('make one job of creates that are repeated at once', async () => {
      const [one, two] = await openTwice()
      const modelId = await addModel(one, 'm')
      const creates = Array.from({ length: KEYS * REPEATS }, (_, index) => {
        const job = { ...newJobOf(modelId, `digest ${index % KEYS}`) }
        const options = { ...ONCE, idempotencyKey: `key ${index % KEYS}` }
        return createJob(index % 2 === 0 ? one : two, job, options)
      })
      const made = await Promise.all(creates)
      expect(made.filter(({ isNew }) => isNew).length).toBe(KEYS)
      expect(new Set(made.map(({ job }) => job.id)).size).toBe(KEYS)
      const rows = await one.selectFrom('training_jobs').select('id').execute()
      expect(rows.length).toBe(KEYS)
    })

    test('hand each job to one of those that claim at once', async () => {
      const [one, two] = await openTwice()
      for (let index = 0; index < KEYS; index += 1) {
        await createJob(one, newJobOf(await addModel(one, `m${index}`), `digest ${index}`), ONCE)
      }
      const claimAll = async (db: DatabaseHandle): Promise<string[]> => {
        const claimed: string[] = []
        for (let misses = 0; misses < 2; ) {
          const next = await claimNextJob(db, systemIds, TEST_LEASE)
          if (next === null) misses += 1
          else claimed.push(next.job.id)
        }
        return claimed
      }
      const claimed = (await Promise.all([one, two, one, two].map(claimAll))).flat()
      expect(claimed.length).toBe(KEYS)
      expect(new Set(claimed).size).toBe(KEYS)
    })

    test('are repeated when another has changed what they read, and that is counted', async () => {
      const [one, two] = await openTwice()
      const counters = { requests: 1, promptTokens: 10, cachedTokens: 0, completionTokens: 3 }
      const key = { entity: 'local', project: 'p', model: 'm' }
      await addUsage(one, key, counters)
      let runs = 0
      await inTransaction(one, async (transaction) => {
        runs += 1
        await transaction.selectFrom('usage_days').selectAll().execute()
        if (runs === 1) await inTransaction(two, (other) => addUsage(other, key, counters))
        await addUsage(transaction, key, counters)
      })
      expect([runs, countRetries(one), countRetries(two)]).toEqual([2, 1, 0])
      const row = await one.selectFrom('usage_days').selectAll().executeTakeFirstOrThrow()
      expect(row).toMatchObject({ requests: 3, prompt_tokens: 30 })
    })

    test('add up what both count in the same row', async () => {
      const [one, two] = await openTwice()
      const counters = { requests: 1, promptTokens: 10, cachedTokens: 0, completionTokens: 3 }
      const key = { entity: 'local', project: 'p', model: 'm' }
      const adds = Array.from({ length: 40 }, (_, index) =>
        inTransaction(index % 2 === 0 ? one : two, (transaction) => addUsage(transaction, key, counters)),
      )
      await Promise.all(adds)
      const row = await one.selectFrom('usage_days').selectAll().executeTakeFirstOrThrow()
      expect(row).toMatchObject({ requests: 40, prompt_tokens: 400, completion_tokens: 120 })
    })
  })

  test('a commit whose answer is lost is told as one whose outcome nobody knows', async () => {
    const db = await open(await postgres.createDatabase())
    await sql`create function wait_at_commit() returns trigger language plpgsql as
      $$ begin perform pg_sleep(600); return null; end $$`.execute(db)
    await sql`create constraint trigger waits after insert on health_probes deferrable initially deferred
      for each row execute function wait_at_commit()`.execute(db)
    const write = inTransaction(db, (transaction) =>
      transaction.insertInto('health_probes').values({ id: 'x', value: 'y' }).execute(),
    )
    const failed = expect(write).rejects.toMatchObject({
      code: 'database_unavailable',
      message: expect.stringContaining('it may be done all the same'),
    })
    const kill = sql<{ killed: boolean }>`select pg_terminate_backend(pid) as killed from pg_stat_activity
      where query = 'commit' and state = 'active' and datname = current_database()`
    await until(async () => ((await kill.execute(db)).rows.length > 0 ? true : null), 'the commit to be cut off')
    await failed
    // the pool goes on with other connections
    expect(await db.selectFrom('health_probes').selectAll().execute()).toEqual([])
  })

  test('a single write whose answer is lost may be done too; a read changes nothing', async () => {
    const db = await open(await postgres.createDatabase())
    await sql`create function wait() returns trigger language plpgsql as
      $$ begin perform pg_sleep(600); return new; end $$`.execute(db)
    await sql`create trigger waits before insert on health_probes for each row execute function wait()`.execute(db)
    const cutOff = async (statement: string) => {
      const kill = sql<{ killed: boolean }>`select pg_terminate_backend(pid) as killed from pg_stat_activity
        where query like ${statement} and state = 'active' and pid <> pg_backend_pid() and datname = current_database()`
      await until(async () => ((await kill.execute(db)).rows.length > 0 ? true : null), 'the statement to be cut off')
    }
    const write = db.insertInto('health_probes').values({ id: 'x', value: 'y' }).execute()
    const unknown = { code: 'database_unavailable', message: expect.stringContaining('it may be done all the same') }
    const failed = expect(write).rejects.toMatchObject(unknown)
    await cutOff('insert into "health_probes"%')
    await failed
    const read = expect(sql`select pg_sleep(600)`.execute(db)).rejects.toMatchObject({
      hint: expect.stringContaining('nothing was changed'),
    })
    await cutOff('select pg_sleep%')
    await read
  })

  describe('a server whose lock is lost with its connection', () => {
    /** Ends the connection that has the lock. */
    const cutLock = (address: string) =>
      postgres.query(address, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted")

    /** Waits for the lock as its next holder. @returns once it waits */
    async function queueUp(address: string, lock = 'pg_advisory_lock'): Promise<void> {
      const { Client } = loadDriver()
      const other = new Client({ connectionString: address })
      other.on('error', () => undefined)
      await other.connect()
      onTestFinished(() => other.end())
      other.query(`select ${lock}(8642001)`).catch(() => undefined)
      const waiting = "select pid from pg_locks where locktype = 'advisory' and not granted"
      const isThere = async () => ((await postgres.query(address, waiting)).length > 0 ? true : null)
      await until(isThere, 'the other to wait')
    }

    test.each([
      ['another server has the database', 'pg_advisory_lock'],
      ['servers that share it have it', 'pg_advisory_lock_shared'],
    ])('stops, once %s', async (_what, lock) => {
      const address = await postgres.createDatabase()
      const service = await serve(address)
      await queueUp(address, lock)
      await cutLock(address)
      expect(await service.failed).toMatchObject({ code: 'database_in_use' })
      await service.close(0)
      await expect(service.fetch('/v1/preview/models')).rejects.toThrow('fetch failed')
      // nothing of it is left open
      const open =
        "select pid from pg_stat_activity where application_name = 'trainyard' and datname = current_database()"
      const isGone = async () => ((await postgres.query(address, open)).length === 0 ? true : null)
      await until(isGone, 'its connections to end')
    })

    test('is told of it once, and goes on where nobody has taken the lock', async () => {
      const address = await postgres.createDatabase()
      const told: unknown[] = []
      await open(address, { onTakenOver: (error) => told.push(error) })
      const holders = () =>
        postgres.query<{ pid: number }>(address, "select pid from pg_locks where locktype = 'advisory' and granted")
      const [before] = await holders()
      await cutLock(address)
      const isHeld = async () => {
        const [now] = await holders()
        return now !== undefined && now.pid !== before?.pid ? true : null
      }
      await until(isHeld, 'the lock to be taken again')
      expect(told).toEqual([])
      await queueUp(address)
      await cutLock(address)
      await until(async () => (told.length > 0 ? true : null), 'it to be told')
      expect(told).toMatchObject([{ code: 'database_in_use' }])
    })
  })

  test('a text with U+0000 is refused by name: PostgreSQL cannot store it', async () => {
    const db = await open(await postgres.createDatabase())
    await expect(addModel(db, 'a\0b')).rejects.toMatchObject({ category: 'invalid_request', code: 'invalid_value' })
  })

  test('away, it is answered with 503 and a time to come back; when it is back, the service goes on and jobs end', async () => {
    const address = await postgres.createDatabase()
    const service = await serve(address)
    const model = await service.createModel()
    const json = { model_id: model, trajectory_groups: [sampleGroup()] }
    await service.waitForJob((await service.json<{ id: string }>('/v1/preview/training-jobs', { json })).body.id)
    await postgres.kill()
    for (const request of [undefined, { json }]) {
      const answer = await service.fetch('/v1/preview/training-jobs', request)
      expect(answer.status).toBe(503)
      expect(answer.headers.get('retry-after')).toBe('5')
      expect(await answer.json()).toMatchObject({ error: { code: 'database_unavailable' } })
    }
    await postgres.start()
    const isBack = async () => ((await service.fetch('/v1/preview/models')).status === 200 ? true : null)
    await until(isBack, 'the service to answer again')
    const again = { ...json, trajectory_groups: [sampleGroup([0.5, 0.25])] }
    const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json: again })
    expect(status).toBe(200)
    expect((await service.waitForJob(body.id)).status).toBe('completed')
    // the lock is held again, so a second server stays out
    const second = () =>
      createTestService({ database: address }).then(
        () => 'started',
        (error: { code: string }) => error.code,
      )
    expect(await second()).toBe('database_in_use')
  })

  test('what one service has stored another finds, on an empty data directory of its own, with the same ids', async () => {
    const address = await postgres.createDatabase()
    const first = await serve(address)
    const model = await first.createModel('kept')
    await first.close(1000)
    const second = await serve(address, { apiKey: first.apiKey, adoptsOtherDatabase: true })
    const { body } = await second.json<{ data: { id: string }[] }>('/v1/preview/models')
    expect(body.data.map(({ id }) => id)).toEqual([model])
    expect(second.createdApiKey).toBeNull()
  })

  test.each([
    ['blobs on this machine without a word', (a: string) => ({ database: a, singleServer: false }), 'invalid_setting'],
    ['a password', (a: string) => ({ database: a.replace('tests@', 'tests:secret@') }), 'invalid_setting'],
    ['another program', () => ({ database: 'mysql://root@localhost/db' }), 'invalid_setting'],
    ['no name', () => ({ database: 'postgres://root@localhost:5432/' }), 'invalid_setting'],
    ['a database that is not there', (a: string) => ({ database: a.replace('/test_', '/no_') }), 'database_refused'],
    ['a port nobody listens on', () => ({ database: 'postgres://x@127.0.0.1:1/x' }), 'database_unavailable'],
  ])('a start with %s is refused', async (_, settings, code) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-pg-refused-'))
    onTestFinished(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20 }))
    const options = { dataDir, port: 0, seams: { entryPaths: STAND_INS }, logLevel: 'silent' as const }
    const start = createTestedService({
      ...options,
      singleServer: true,
      baseModels: ['trainyard/tiny-random'],
      ...settings(await postgres.createDatabase()),
    })
    await expect(start).rejects.toMatchObject({ code })
    await expect(start).rejects.not.toMatchObject({ message: expect.stringContaining('secret') })
  })

  test('a database that a newer version has written is refused', async () => {
    const address = await postgres.createDatabase()
    await (await openPostgres(address, { maxConnections: 2 })).close()
    await postgres.query(address, "insert into kysely_migration (name, timestamp) values ('9999-later', 'now')")
    await expect(openPostgres(address, { maxConnections: 2 })).rejects.toMatchObject({ code: 'database_newer' })
  })
})
