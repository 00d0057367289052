/**
 * A whole service whose blobs lie in a bucket: it trains, answers, starts again on an empty disk, gives its files, is verified, saved and
 * restored, and its blobs are swept. Real children, real S3 servers.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AwsClient } from 'aws4fetch'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import type { CheckpointFiles } from '#contract/wire/checkpoints.js'
import type { StorageReport } from '#contract/wire/health.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createBackup, restoreBackup } from '#plugins/backup/data-directory.js'
import { parseS3Address } from '#plugins/s3/s3-address.js'
import { openS3Blobs } from '#plugins/s3/s3-blobs.js'
import { createCredentialSource } from '#plugins/s3/s3-credentials.js'
import { createBlobSweeper } from '#service/operations/blob-sweeper.js'
import { S3_SERVERS, type S3Server } from '../../support/local-s3.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { runCli } from '../../support/service/run-cli.js'
import { openDatabase } from '../../support/service/with-plugins.js'

const ROWS = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'.repeat(4)

describe.each(S3_SERVERS)('a service with a bucket of $name', (kind) => {
  let server: S3Server
  let service: TestService
  let address: string
  let root: string
  let said: unknown
  const options = () => ({
    scripted: false,
    threads: 1,
    blobStore: address,
    seams: { environment: { ...process.env, ...server.environment } },
  })

  async function chat(of: TestService): Promise<unknown> {
    const { status, body } = await of.json<{ choices: unknown }>('/v1/chat/completions', {
      json: { model: 'm:step1', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 6, temperature: 0 },
    })
    expect(status).toBe(200)
    return body.choices
  }

  beforeAll(async () => {
    if (!kind.isThere) return
    root = await mkdtemp(join(tmpdir(), 'trainyard-s3-service-'))
    server = await kind.start()
    await server.makeBucket('data')
    address = `s3://data/yard?endpoint=${server.endpoint}&style=path`
    service = await createTestService(options())
  })
  afterAll(async () => {
    if (!kind.isThere) return
    await service.dispose()
    await server.stop()
    await rm(root, { recursive: true, force: true, maxRetries: 20 })
  })

  it.skipIf(!kind.isThere)('trains and answers, and keeps no blob in its data directory', async () => {
    const { body: file } = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
      method: 'POST',
      body: ROWS,
    })
    const model = await service.createModel('m')
    const { body: job } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
      json: { model_id: model, training_data_url: file.id, config: { learning_rate: 1e-2 } },
    })
    expect(await service.waitForJob(job.id)).toMatchObject({ status: 'completed', step: 1 })
    said = await chat(service)
    expect(await readdir(join(service.dataDir, 'blobs', 'sha256'))).toEqual([])
  })

  it.skipIf(!kind.isThere)('starts again on a disk without copies, answers the same and gives its files', async () => {
    await service.close(5000)
    await rm(join(service.dataDir, 'cache'), { recursive: true })
    service = await service.restart(options())
    expect(await chat(service)).toEqual(said)
    const { body: models } = await service.json<{ data: { id: string }[] }>('/v1/preview/models')
    const path = `/v1/preview/models/${models.data[0]?.id}/checkpoints/1/files`
    const { body } = await service.json<CheckpointFiles>(path)
    expect(body.files.length).toBeGreaterThan(2)
    for (const { name, sha256 } of body.files) {
      const bytes = Buffer.from(await (await service.fetch(`${path}/${name}`)).arrayBuffer())
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256)
    }
  })

  it.skipIf(!kind.isThere)('says of a damaged and of a missing object what it says of files on its disk', async () => {
    const { body: models } = await service.json<{ data: { id: string }[] }>('/v1/preview/models')
    const path = `/v1/preview/models/${models.data[0]?.id}/checkpoints/1/files`
    const { body } = await service.json<CheckpointFiles>(path)
    const digest = body.files.find(({ name }) => name === 'adapter_model.safetensors')?.sha256 ?? ''
    const { body: file } = await service.json<{ id: string }>('/v1/files?filename=y.jsonl', {
      method: 'POST',
      body: `${ROWS}\n`,
    })
    const fileDigest = createHash('sha256').update(`${ROWS}\n`).digest('hex')
    const s3 = new AwsClient({
      accessKeyId: server.environment['AWS_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: server.environment['AWS_SECRET_ACCESS_KEY'] ?? '',
      service: 's3',
      region: 'us-east-1',
    })
    const urlOf = (sha256: string) => `${server.endpoint}/data/yard/sha256/${sha256.slice(0, 2)}/${sha256.slice(2)}`
    const restart = async () => {
      await service.close(5000)
      await rm(join(service.dataDir, 'cache'), { recursive: true, force: true })
      service = await service.restart(options())
    }
    const said = async (path: string, json?: object) => {
      const answer = await service.json<{ error: { code: unknown; reason?: string; message: string; hint?: string } }>(
        path,
        json === undefined ? {} : { json },
      )
      return [answer.status, answer.body.error.message, answer.body.error.hint ?? '']
    }
    const chatRequest = { model: 'm:step1', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 2 }
    const isDamaged = [
      500,
      expect.stringMatching(/^the checkpoint at step 1 of model "m" is damaged: adapter_model/),
      expect.any(String),
    ]
    const wholes = new Map<string, ArrayBuffer>()
    for (const sha256 of [digest, fileDigest]) wholes.set(sha256, await (await s3.fetch(urlOf(sha256))).arrayBuffer())
    const bytes = new Uint8Array(wholes.get(digest) ?? new ArrayBuffer(0)).map((byte, i) => (i > 900 ? 0x3c : byte))
    for (const kindOfFault of ['damaged', 'missing'] as const) {
      for (const sha256 of [digest, fileDigest]) {
        const isGone = kindOfFault === 'missing'
        const body = sha256 === digest ? bytes : new Uint8Array([1])
        const answer = await s3.fetch(urlOf(sha256), isGone ? { method: 'DELETE' } : { method: 'PUT', body })
        expect(answer.ok).toBe(true)
      }
      await restart()
      expect(await said('/v1/chat/completions', chatRequest)).toEqual(isDamaged)
      expect(await said(`/v1/files/${file.id}/content`)).toEqual([
        500,
        kindOfFault === 'missing'
          ? `stored bytes cannot be read: blob ${fileDigest.slice(0, 12)} is gone`
          : `stored bytes are damaged: blob ${fileDigest.slice(0, 12)}`,
        expect.stringContaining('trainyard verify'),
      ])
    }
    for (const [sha256, whole] of wholes) await s3.fetch(urlOf(sha256), { method: 'PUT', body: whole })
    await restart()
    await chat(service)
  })

  it.skipIf(!kind.isThere)('is verified by itself, and a command on the data directory says where to ask', async () => {
    const response = await service.fetch('/v1/preview/verify', { method: 'POST' })
    const events = (await response.text()).split('\n\n').filter((event) => event.includes('data: '))
    const report = JSON.parse(events.at(-1)?.split('data: ')[1] ?? '') as StorageReport
    expect(report).toMatchObject({ ok: true, missing: [], damaged: [] })
    expect(report.blobs).toBeGreaterThan(3)
    const offline = await runCli(['verify', '--data-dir', service.dataDir])
    expect(offline.exitCode).not.toBe(0)
    expect(offline.stderr).toContain(`are kept in s3://data/yard?endpoint=${server.endpoint}`)
  })

  it.skipIf(!kind.isThere)('reports the bucket among its health checks', async () => {
    const { body } = await service.json<{ checks: { name: string; success: boolean; message: string }[] }>(
      '/v1/system-check',
    )
    expect(body.checks.find(({ name }) => name === 'blob_store')).toMatchObject({
      success: true,
      message: expect.stringContaining('s3://data/yard'),
    })
  })

  it.skipIf(!kind.isThere)(
    'does not start on the data without the bucket, and nobody else starts on the bucket',
    async () => {
      await service.close(5000)
      const { dataDir } = service
      const logger = createLogger({ level: 'silent' })
      await expect(createTestService({ dataDir, logger })).rejects.toMatchObject({
        code: 'blobs_elsewhere',
        hint: expect.stringContaining('aws s3 sync'),
      })
      const other = join(root, 'other')
      await expect(createTestService({ ...options(), dataDir: other })).rejects.toMatchObject({
        code: 'blob_store_foreign',
      })
      service = await service.restart(options())
      expect(await chat(service)).toEqual(said)
    },
  )

  it.skipIf(!kind.isThere)('is saved without its blobs, restored elsewhere, and answers the same', async () => {
    const file = join(root, 'backup.tar')
    expect(await createBackup(service.dataDir, file)).toMatchObject({
      blobs: 0,
      damaged: [],
      blobStore: `s3://data/yard?endpoint=${server.endpoint}`,
    })
    await service.close(5000)
    const dataDir = join(root, 'restored')
    expect(await restoreBackup(file, dataDir)).toMatchObject({
      blobStore: `s3://data/yard?endpoint=${server.endpoint}`,
    })
    const restored = await createTestService({ ...options(), dataDir, apiKey: service.apiKey })
    expect(await chat(restored)).toEqual(said)
    await restored.close(5000)
    service = await service.restart(options())
  })

  it.skipIf(!kind.isThere)('lets go of what was deleted, in two sweeps', async () => {
    const { body: models } = await service.json<{ data: { id: string }[] }>('/v1/preview/models')
    for (const { id } of models.data) await service.fetch(`/v1/preview/models/${id}`, { method: 'DELETE' })
    const { body: files } = await service.json<{ data: { id: string }[] }>('/v1/files')
    for (const { id } of files.data) await service.fetch(`/v1/files/${id}`, { method: 'DELETE' })
    await service.close(5000)
    const environment = server.environment
    const blobs = await openS3Blobs({
      address: parseS3Address(address, environment),
      credentials: createCredentialSource(environment),
      cachePath: join(root, 'cache'),
      clock: systemClock,
      random: Math.random,
    })
    const database = await openDatabase(join(service.dataDir, 'trainyard.sqlite3'))
    const logger = createLogger({ level: 'silent' })
    const sweeper = createBlobSweeper({ db: database.db, blobs, clock: systemClock, logger, graceMs: 0 })
    const first = await sweeper.sweep()
    expect(first.removed + first.waiting).toBeGreaterThan(3)
    await sweeper.sweep()
    const left: string[] = []
    for await (const sha256 of blobs.list()) left.push(sha256)
    expect(left).toEqual([])
    await sweeper.stop()
    await database.close()
    service = await service.restart(options())
  })
})
