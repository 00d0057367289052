/**
 * `trainyard move` where something is wrong: killed at its work and begun again, a damaged source, servers at work, places that hold something,
 * other schemas, rows that PostgreSQL cannot store, and command lines that make no sense. Nothing is half there afterwards.
 */
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { moveService } from '#plugins/backup/data-directory.js'
import { loadDriver } from '#plugins/postgres/storage/driver.js'
import { createShelf } from '#service/operations/base-models/shelf.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { type FaultyProxy, startFaultyProxy } from '../../../support/faulty-proxy.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { S3_SERVERS, type S3Server } from '../../../support/local-s3.js'
import { startCli } from '../../../support/service/cli-process.js'
import { createTestService } from '../../../support/service/create-test-service.js'
import { runCli } from '../../../support/service/run-cli.js'
import { openPostgres } from '../../../support/service/with-plugins.js'
import { filesOf, rowsOfFile, rowsOfPostgres } from '../../../support/storage/moved-rows.js'
import { until } from '../../../support/until.js'

const FILES = 12
const kind = S3_SERVERS.find(({ isThere }) => isThere)
const isReady = hasPostgres() && kind !== undefined

describe.skipIf(!isReady)(isReady ? 'a move' : `${NO_POSTGRES}, or no S3 server (.ci/run)`, () => {
  let postgres: LocalPostgres
  let server: S3Server
  let proxy: FaultyProxy
  let root: string
  let template: string
  /** A copy of the template's directory, which each test may spoil. */
  let from: string
  let address: string
  let bucket: string
  let count = 0

  const move = (...args: string[]) => runCli(['move', ...args], { env: { ...server.environment } })
  const toBoth = () => ['--from', from, '--database', address, '--blob-store', bucket]
  const rowCount = async (): Promise<number> =>
    Object.values(await rowsOfPostgres(address)).reduce((sum, rows) => sum + rows.length, 0)
  const expectMoved = async (): Promise<void> => {
    const rows = rowsOfFile(join(from, 'trainyard.sqlite3'))
    expect((await rowsOfPostgres(address))['files']).toEqual(rows['files'])
    expect(await rowCount()).toBe(Object.values(rows).reduce((sum, table) => sum + table.length, 0))
  }

  beforeAll(async () => {
    postgres = await startPostgres()
    server = await (kind ?? expect.fail()).start()
    await server.makeBucket('data')
    root = await mkdtemp(join(tmpdir(), 'trainyard-move-test-'))
    template = join(root, 'template')
    const service = await createTestService({ dataDir: template, database: null })
    await service.createModel('m')
    for (let index = 0; index < FILES; index += 1) {
      await service.fetch(`/v1/files?filename=f${index}.jsonl`, { method: 'POST', body: `{"n":${index}}\n` })
    }
    await service.close(2000)
  })
  afterAll(async () => {
    await server?.stop()
    await postgres?.stop()
    await rm(root, { recursive: true, force: true, maxRetries: 20 })
  })
  beforeEach(async () => {
    count += 1
    from = join(root, `source-${count}`)
    await copyDirectory(template, from)
    address = await postgres.createDatabase()
    proxy = await startFaultyProxy(server.endpoint)
    bucket = `s3://data/p${count}?endpoint=${proxy.url}&style=path`
  })
  afterEach(() => proxy.stop())

  /** Runs it as a process, and kills that when `isThere`. */
  async function kill(args: readonly string[], isThere: () => Promise<boolean> | boolean): Promise<void> {
    const { child, finished } = startCli(['move', ...args], { home: root, env: { ...server.environment } })
    await until(async () => ((await isThere()) ? true : null), 'the move to be at work', 60_000)
    child.kill('SIGKILL')
    expect((await finished).exitCode).toBeNull()
  }

  const sentBlobs = (): readonly string[] => [
    ...new Set(proxy.seen.filter((line) => line.startsWith('PUT') && line.includes('/sha256/'))),
  ]

  it('that is killed between blobs goes on with those that are missing', async () => {
    let passed = 0
    proxy.choose(({ method, url }) => {
      if (method !== 'PUT' || url?.includes('/sha256/') !== true) return null
      passed += 1
      return passed > 5 ? { kind: 'silence' } : null
    })
    await kill(toBoth(), () => passed > 6)
    expect(await rowCount()).toBe(0)
    const before = await filesOf(from)
    proxy.choose(() => null)
    const sent = proxy.seen.length
    const { exitCode, stdout } = await move(...toBoth(), '--json')
    expect(exitCode).toBe(0)
    const { blobs, blobs_present } = JSON.parse(stdout) as { blobs: number; blobs_present: number }
    expect(blobs).toBe(FILES)
    expect(blobs_present).toBeGreaterThan(0)
    const again = proxy.seen.slice(sent).filter((line) => line.startsWith('PUT') && line.includes('/sha256/'))
    expect(again.length).toBe(FILES - blobs_present)
    expect(sentBlobs().length).toBe(FILES)
    expect(await filesOf(from)).toEqual(before)
    await expectMoved()
  })

  it('that is killed within the transaction of rows leaves none, and is begun again', async () => {
    const opened = await openPostgres(address, { maxConnections: 2 })
    await opened.close()
    const client = new (loadDriver().Client)({ connectionString: address })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('begin')
    // reads go on, the move's writes of this table wait
    await client.query('lock table files in share mode')
    const waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    await kill(toBoth(), async () => (await postgres.query(address, waits)).length > 0)
    await client.query('rollback')
    const others =
      "select 1 from pg_stat_activity where datname = current_database() and application_name = 'trainyard'"
    await until(
      async () => ((await postgres.query(address, others)).length === 0 ? true : null),
      'its connections to end',
    )
    expect(await rowCount()).toBe(0)
    expect(await move(...toBoth())).toMatchObject({ exitCode: 0 })
    await expectMoved()
  })

  it('into a directory that is killed keeps servers away from it until it is begun again', async () => {
    expect((await move(...toBoth())).exitCode).toBe(0)
    const back = join(root, `back-${count}`)
    const args = ['--from-database', address, '--from-blob-store', bucket, '--data-dir', back]
    let read = 0
    proxy.choose(({ method, url }) => {
      if (method !== 'GET' || url?.includes('/sha256/') !== true) return null
      read += 1
      return read > 4 ? { kind: 'silence' } : null
    })
    await kill(args, () => read > 5)
    await expect(createTestService({ dataDir: back, database: null })).rejects.toMatchObject({
      code: 'data_dir_incomplete',
      hint: expect.stringContaining('trainyard move'),
    })
    proxy.choose(() => null)
    const gone = async () => ((await postgres.query(address, LOCKS)).length === 0 ? true : null)
    await until(gone, 'the lock of the killed process to end')
    expect(await move(...args)).toMatchObject({ exitCode: 0, stderr: '' })
    expect(rowsOfFile(join(back, 'trainyard.sqlite3'))['files']).toEqual((await rowsOfPostgres(address))['files'])
    expect(await filesOf(join(back, 'blobs', 'sha256'))).toEqual(await filesOf(join(from, 'blobs', 'sha256')))
    expect(await readdir(back)).not.toContain('move-incomplete')
    expect(await move(...args)).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('is not empty') })
  })

  it('into a directory that is killed behind its last row is ended by another', async () => {
    const to = join(root, `to-${count}`)
    expect(await move('--from', from, '--data-dir', to)).toMatchObject({ exitCode: 0 })
    const files = await filesOf(to)
    const rows = rowsOfFile(join(to, 'trainyard.sqlite3'))
    const [identity = ''] = rows['database_identity'] ?? []
    await writeFile(join(to, 'move-incomplete'), `${(JSON.parse(identity) as { id: string }).id}\n`)
    expect(await move('--from', from, '--data-dir', to, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await move('--from', from, '--data-dir', to)).toMatchObject({ exitCode: 0, stderr: '' })
    expect(Object.keys(await filesOf(to))).toEqual(Object.keys(files))
    expect(rowsOfFile(join(to, 'trainyard.sqlite3'))).toEqual(rows)
    // what is there and differs is not taken
    await writeFile(join(to, 'move-incomplete'), `${(JSON.parse(identity) as { id: string }).id}\n`)
    change(join(to, 'trainyard.sqlite3'), "update files set filename = 'other.jsonl' where filename = 'f3.jsonl'")
    expect(await move('--from', from, '--data-dir', to)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('files has '),
    })
    expect(await readdir(to)).toContain('move-incomplete')
  })

  it('says that added base models stay behind, also before', async () => {
    const shelf = createShelf(join(from, 'base-models'))
    await shelf.write({ name: 'mine', addedAtMs: 1, source: { type: 'local' }, facts: null })
    for (const more of [['--dry-run'], []]) {
      const { exitCode, stderr } = await move('--from', from, '--data-dir', join(root, `to-${count}`), ...more)
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.stringContaining('stay behind: mine;') })
    }
  })

  it('moves no row where rows came while blobs were on their way', async () => {
    const path = join(from, 'trainyard.sqlite3')
    const later = `update files set sha256 = '${'e'.repeat(64)}' where filename = 'f3.jsonl'`
    const to = { directory: join(root, `to-${count}`), database: null, blobStore: null }
    const moving = moveService({
      from: { directory: from, database: null, blobStore: null },
      to,
      environment: {},
      isDryRun: false,
      onProgress: (state) => {
        if (state.what === 'blobs' && state.done === state.of) change(path, later)
      },
    })
    await expect(moving).rejects.toMatchObject({ code: 'database_in_use', message: expect.stringContaining('files') })
    expect(rowsOfFile(join(to.directory, 'trainyard.sqlite3'))['files']).toEqual([])
  })

  it.each(['changed', 'gone'])(
    'names a blob that is %s, moves no row, and goes on once it is put back',
    async (how) => {
      const names = Object.keys(await filesOf(join(from, 'blobs', 'sha256'))).sort()
      const name = names[3] ?? ''
      const path = join(from, 'blobs', 'sha256', name)
      const whole = await readFile(path)
      if (how === 'gone') await rm(path)
      else await writeFile(path, Buffer.from(whole).fill('#', 0, 3))
      const { exitCode, stderr } = await move(...toBoth())
      expect(exitCode).toBe(1)
      expect(stderr).toContain(`blob ${name.replace('/', '')} ${how === 'gone' ? 'is not there' : 'is damaged'}`)
      expect(stderr).toContain('named by files')
      expect(stderr).toContain('no row was moved')
      expect(await rowCount()).toBe(0)
      await writeFile(path, whole)
      const { stdout } = await move(...toBoth(), '--json')
      expect(JSON.parse(stdout)).toMatchObject({ blobs: FILES, blobs_present: FILES - 1, damaged: [] })
      await expectMoved()
    },
  )

  it('names an object of the bucket that is damaged', async () => {
    expect((await move(...toBoth())).exitCode).toBe(0)
    const key = sentBlobs()[2]?.split(' ')[1] ?? ''
    proxy.choose(({ method, url }) => (method === 'GET' && url?.startsWith(key) ? { kind: 'damage' } : null))
    const back = join(root, `back-${count}`)
    const args = ['--from-database', address, '--from-blob-store', bucket, '--data-dir', back]
    const { exitCode, stderr } = await move(...args)
    expect(exitCode).toBe(1)
    expect(stderr).toContain(`blob ${key.split('/sha256/')[1]?.replace('/', '')}`)
    proxy.choose(() => null)
    expect(await move(...args)).toMatchObject({ exitCode: 0 })
  })

  it('writes an object anew that the target had damaged', async () => {
    const damaged = Object.keys(await filesOf(join(from, 'blobs', 'sha256')))[0] ?? ''
    // the owner is written first, as by a move that was killed
    let passed = 0
    proxy.choose(({ method, url }) => {
      if (method === 'PUT' && url?.includes('/sha256/') === true) passed += 1
      return passed > 0 ? { kind: 'silence' } : null
    })
    await kill(toBoth(), () => passed > 0)
    proxy.choose(() => null)
    await server.putObject(`data/p${count}/sha256/${damaged}`, 'not its bytes')
    expect(await move(...toBoth())).toMatchObject({ exitCode: 0 })
    const back = join(root, `back-${count}`)
    const args = ['--from-database', address, '--from-blob-store', bucket, '--data-dir', back]
    expect(await move(...args)).toMatchObject({ exitCode: 0 })
  })

  it('is refused while a server works with either side', async () => {
    const service = await createTestService({ dataDir: from, database: null })
    const source = await move(...toBoth())
    await service.close(2000)
    expect(source).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('is used by another server') })
    const other = await createTestService({ dataDir: join(root, `other-${count}`), database: address })
    const target = await move(...toBoth())
    await other.close(2000)
    expect(target).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('another server') })
  })

  it('is refused where another database lives, and where something lies', async () => {
    const other = await createTestService({ dataDir: join(root, `other-${count}`), database: address })
    await other.close(2000)
    expect(await move(...toBoth())).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('is not empty: ') })
    const full = join(root, `full-${count}`)
    await mkdir(full)
    await writeFile(join(full, 'letter.txt'), 'mine')
    expect(await move('--from', from, '--data-dir', full)).toMatchObject({
      exitCode: 5,
      stderr: expect.stringContaining('is not empty'),
    })
    expect(await readdir(full)).toEqual(['letter.txt'])
    await server.putObject(`data/p${count}/sha256/ab/${'c'.repeat(62)}`, 'somebody')
    const blobs = await move('--from', from, '--blob-store', bucket)
    expect(blobs).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('no database says they are its own') })
    await server.putObject(`data/p${count}/trainyard-database`, 'another')
    const foreign = await move('--from', from, '--blob-store', bucket)
    expect(foreign).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('belongs to another database') })
  })

  it('that was made before the source was served on is said to be an earlier state', async () => {
    expect(await move(...toBoth())).toMatchObject({ exitCode: 0 })
    const service = await createTestService({ dataDir: from, database: null })
    await service.close(2000)
    for (const dryRun of [[], ['--dry-run']]) {
      expect(await move(...toBoth(), ...dryRun)).toMatchObject({
        exitCode: 5,
        stderr: expect.stringMatching(/holds an earlier state of this source(.|\n)*do not serve/),
      })
    }
  })

  it('of blobs alone, and of rows alone, is served from where each half is', async () => {
    expect(await move('--from', from, '--blob-store', bucket)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^Moved .*: 12 blobs \(.*\), 0 there already\n$/),
    })
    const seams = { environment: { ...process.env, ...server.environment } }
    const one = await createTestService({ dataDir: from, database: null, blobStore: bucket, seams })
    await one.close(2000)
    const elsewhere = await move('--from', from, '--database', address)
    expect(elsewhere).toMatchObject({
      exitCode: 5,
      stderr: expect.stringContaining('the source keeps its blobs in s3:'),
    })
    const rows = await move('--from', from, '--from-blob-store', bucket, '--database', address, '--blob-store', bucket)
    expect(rows).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/: \d+ rows\n$/) })
    await expectMoved()
    const two = await createTestService({ dataDir: from, database: address, blobStore: bucket, seams })
    await two.close(2000)
    // the rows that were left there are older than the directory by now
    await expect(createTestService({ dataDir: from, database: null, blobStore: bucket, seams })).rejects.toMatchObject({
      code: 'database_unreadable',
    })
  })

  it('says what to do about another schema', async () => {
    const path = join(from, 'trainyard.sqlite3')
    change(path, "delete from kysely_migration where name >= '0036'")
    expect(await move(...toBoth())).toMatchObject({
      exitCode: 5,
      stderr: expect.stringMatching(/has the schema of an earlier version: it lacks 0036(.|\n)*trainyard serve/),
    })
    change(path, "insert into kysely_migration (name, timestamp) values ('9999-future', '')")
    expect(await move(...toBoth())).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('9999-future') })
  })

  it('names a row that PostgreSQL cannot store, and moves none', async () => {
    change(
      join(from, 'trainyard.sqlite3'),
      "update files set filename = 'a' || char(0) || 'b' where filename = 'f3.jsonl'",
    )
    const { exitCode, stderr } = await move(...toBoth())
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/filename of files \(id "[^"]+"\) holds the character U\+0000/)
    expect(await rowCount()).toBe(0)
  })

  it.each([
    [[], 2, '--from with a data directory is required'],
    [['--from', 'FROM'], 2, 'source and target are the same place'],
    [['--from', 'NOWHERE', '--database', 'DATABASE'], 3, 'holds nothing to move: it has no trainyard.sqlite3'],
    [['--from', 'FROM', '--from-database', 'DATABASE', '--data-dir', 'NOWHERE'], 3, 'it has no tables of this program'],
    [['--from', 'FROM', '--database', 'postgres://me:hunter2@localhost/x'], 2, 'must not hold a password'],
    [['--from', 'FROM', '--database', 'postgre://me:hunter2@localhost/x'], 2, 'must be an address like'],
    [['--from', 'FROM', '--blob-store', 's3://key:hunter2@data/p'], 2, 'must not hold keys'],
    [['--from', 'FROM', '--database', 'postgres://me@127.0.0.1:1/x'], 6, 'cannot be reached'],
    [['--from-database', 'DATABASE', '--data-dir', 'NOWHERE'], 2, '--from with a data directory is required'],
  ])('%j is exit %i', async (args, exit, said) => {
    const words: Readonly<Record<string, string>> = { FROM: from, DATABASE: address, NOWHERE: join(root, 'nowhere') }
    const { exitCode, stderr } = await move(...args.map((arg) => words[arg] ?? arg))
    expect(stderr).toContain(said)
    expect(stderr).not.toContain('hunter2')
    expect(exitCode).toBe(exit)
  })
})

const LOCKS =
  "select 1 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"

function change(path: string, statement: string): void {
  const sqlite = openSqlite(path)
  sqlite.exec(statement)
  sqlite.close()
}

async function copyDirectory(source: string, target: string): Promise<void> {
  for (const name of Object.keys(await filesOf(source))) {
    await mkdir(join(target, name, '..'), { recursive: true })
    await copyFile(join(source, name), join(target, name))
  }
}
