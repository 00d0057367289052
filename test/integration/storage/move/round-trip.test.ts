/**
 * `trainyard move`, there and back, with real parts: a data directory whose service has trained and answered, PostgreSQL, S3. Every row is
 * compared by other means than the command's own, the source stays as it was, and both ends serve, chat and train on.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { S3_SERVERS, type S3Server } from '../../../support/local-s3.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { type RunResult, runCli } from '../../../support/service/run-cli.js'
import { filesOf, type Rows, rowsOfFile, rowsOfPostgres } from '../../../support/storage/moved-rows.js'

/** Each time others: what is sent again is the same job. */
const rowsOf = (step: number) =>
  `{"messages":[{"role":"user","content":"q${step}"},{"role":"assistant","content":"a"}]}\n`.repeat(4)

/** The one row that says where blobs are, which is what changes. */
const withoutPlace = (rows: Rows): Rows => ({
  ...rows,
  database_identity: (rows['database_identity'] ?? []).map((row) => row.replace(/"blob_store":("[^"]*"|null),?/, '')),
})

describe.skipIf(!hasPostgres()).each(S3_SERVERS)(
  hasPostgres() ? 'a move to PostgreSQL and $name' : NO_POSTGRES,
  (kind) => {
    let postgres: LocalPostgres
    let server: S3Server
    let root: string
    let dataDir: string
    let address: string
    let bucket: string
    let apiKey: string
    let said: unknown
    let before: Rows
    let environment: Record<string, string>

    const options = (changes: object) => ({
      scripted: false,
      threads: 1,
      seams: { environment: { ...process.env, ...server.environment } },
      ...changes,
    })
    const move = (...args: string[]): Promise<RunResult> => runCli(['move', ...args], { env: environment })

    async function chat(service: TestService): Promise<unknown> {
      const { status, body } = await service.json<{ choices: unknown }>('/v1/chat/completions', {
        json: { model: 'm:step1', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 6, temperature: 0 },
      })
      expect(status).toBe(200)
      return body.choices
    }

    async function train(service: TestService, step: number): Promise<void> {
      const { body: file } = await service.json<{ id: string }>(`/v1/files?filename=rows-${step}.jsonl`, {
        method: 'POST',
        body: rowsOf(step),
      })
      const { body: models } = await service.json<{ data: { id: string }[] }>('/v1/preview/models')
      const { body: job } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
        json: { model_id: models.data[0]?.id, training_data_url: file.id, config: { learning_rate: 1e-2 } },
      })
      expect(await service.waitForJob(job.id)).toMatchObject({ status: 'completed', step })
    }

    beforeAll(async () => {
      if (!kind.isThere) return
      root = await mkdtemp(join(tmpdir(), 'trainyard-move-test-'))
      postgres = await startPostgres()
      server = await kind.start()
      await server.makeBucket('data')
      address = await postgres.createDatabase()
      bucket = `s3://data/yard?endpoint=${server.endpoint}&style=path`
      environment = { ...server.environment }
      dataDir = join(root, 'laptop')
      const service = await createTestService(options({ dataDir, database: null }))
      apiKey = service.apiKey
      const model = await service.createModel('m')
      await train(service, 1)
      const log = { model_id: model, split: 'val', trajectory_groups: [sampleGroup()] }
      await service.json('/v1/preview/trajectories', { json: log })
      await service.json('/v1/preview/webhooks', { json: { url: 'https://example.com/hook', events: ['*'] } })
      said = await chat(service)
      await service.close(5000)
      before = rowsOfFile(join(dataDir, 'trainyard.sqlite3'))
    })
    afterAll(async () => {
      if (!kind.isThere) return
      await server?.stop()
      await postgres?.stop()
      await rm(root, { recursive: true, force: true, maxRetries: 20 })
    })

    it.skipIf(!kind.isThere)('is told before it is done, and nothing changes', async () => {
      const files = await filesOf(dataDir)
      const { stdout, exitCode } = await move(
        ...['--from', dataDir, '--database', address, '--blob-store', bucket, '--dry-run', '--json'],
      )
      expect(exitCode).toBe(0)
      const told = JSON.parse(stdout) as { rows: number; blobs: number; blobs_present: number; tables: object[] }
      const kept = Object.values(before).reduce((sum, rows) => sum + rows.length, 0)
      expect(told).toMatchObject({ dry_run: true, rows: kept, blobs_present: 0, damaged: [] })
      expect(told.blobs).toBeGreaterThan(3)
      expect(told.tables.length).toBeGreaterThan(8)
      expect(await rowsOfPostgres(address)).toEqual({})
      expect(await filesOf(dataDir)).toEqual(files)
    })

    it.skipIf(!kind.isThere)('brings every row and blob, and leaves the source as it was', async () => {
      const files = await filesOf(dataDir)
      const made = await move('--from', dataDir, '--database', address, '--blob-store', bucket)
      expect(made).toMatchObject({ exitCode: 0, stderr: '' })
      expect(made.stdout).toMatch(/^Moved ".*laptop" to postgres:.* and s3:\/\/data\/yard.*: \d+ rows, \d+ blobs/)
      expect(withoutPlace(await rowsOfPostgres(address))).toEqual(withoutPlace(before))
      expect(await filesOf(dataDir)).toEqual(files)
      expect(rowsOfFile(join(dataDir, 'trainyard.sqlite3'))).toEqual(before)
      expect(await move('--from', dataDir, '--database', address, '--blob-store', bucket)).toMatchObject({
        exitCode: 5,
        stderr: expect.stringContaining('holds the rows of this source already'),
      })
    })

    it.skipIf(!kind.isThere)('is served there, which answers the same and trains on', async () => {
      const service = await createTestService(
        options({ dataDir: join(root, 'spool'), database: address, blobStore: bucket, apiKey }),
      )
      expect(await chat(service)).toEqual(said)
      await train(service, 2)
      // the counter that numbers rows goes on behind those that came
      await service.close(5000)
      const again = await createTestService(
        options({ dataDir: join(root, 'spool'), database: address, blobStore: bucket, apiKey }),
      )
      expect(await chat(again)).toEqual(said)
      await again.close(5000)
      expect((await rowsOfPostgres(address))['server_runs']).toHaveLength((before['server_runs']?.length ?? 0) + 2)
    })

    it.skipIf(!kind.isThere)('goes back into a new directory, which is served', async () => {
      const back = join(root, 'back')
      const there = await rowsOfPostgres(address)
      const made = await move('--from-database', address, '--from-blob-store', bucket, '--data-dir', back)
      expect(made).toMatchObject({ exitCode: 0, stderr: '' })
      expect(withoutPlace(rowsOfFile(join(back, 'trainyard.sqlite3')))).toEqual(withoutPlace(there))
      expect(await rowsOfPostgres(address)).toEqual(there)
      expect(await readdir(back)).not.toContain('move-incomplete')
      expect((await stat(join(back, 'trainyard.sqlite3'))).mode & 0o077).toBe(0)
      const service = await createTestService(options({ dataDir: back, database: null, apiKey }))
      expect(await chat(service)).toEqual(said)
      await train(service, 3)
      const verified = await service.fetch('/v1/preview/verify', { method: 'POST' })
      expect(await verified.text()).toContain('"ok":true')
      await service.close(5000)
    })
  },
)
