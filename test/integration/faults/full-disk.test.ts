/**
 * A disk that becomes full while a job runs with its real worker, on a small file system of its own, where this user may mount one:
 * the job waits for room, the previous checkpoint serves meanwhile, and nothing is torn.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-full-disk-'))
const ballast = join(folder, 'ballast')

function mount(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=700', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
const unmount = () => execFileSync('umount', ['-l', folder])
// only tried here: a file that is collected and not run would leave it mounted
const canMount = process.platform === 'linux' && process.getuid?.() === 0 && mount()
if (canMount) unmount()
afterAll(() => {
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

/** To the last block; bounded, should it ever be another disk than this one. */
function fillDisk(): void {
  execFileSync('sh', ['-c', `head -c 100M /dev/zero > '${ballast}' || true`], { stdio: 'ignore' })
}

describe.skipIf(!canMount)('a disk that becomes full while a job runs', { timeout: 280_000 }, () => {
  beforeAll(() => void mount())
  afterAll(() => void unmount())
  let server: KillableServer
  let modelId: string
  let log: string[] = []
  beforeEach(async () => {
    log = []
    server = await startKillableServer({ dataDir: join(folder, 'data'), threads: 1, onLog: (line) => log.push(line) })
    modelId = await server.createModel()
    const first = await server.untilEnd(await server.submitRows(modelId, 2))
    expect(first).toMatchObject({ status: 'completed', step: 1 })
  })
  afterEach(async () => {
    await server.kill('SIGKILL')
    rmSync(ballast, { force: true })
    rmSync(join(folder, 'data'), { recursive: true, force: true, maxRetries: 20 })
  })

  /** Room inside the files of the database, so that rows are written on a disk without any. */
  async function makeRoomInDatabase(): Promise<void> {
    for (let i = 0; i < 300; i += 1) {
      const json = { project: 'p'.repeat(200), name: `${i}`, base_model: 'trainyard/tiny-random' }
      const { id } = await server.call<{ id: string }>('/v1/preview/models', json)
      const gone = await fetch(`${server.url}/v1/preview/models/${id}`, {
        method: 'DELETE',
        headers: { authorization: `Bearer ${server.apiKey}` },
      })
      expect(gone.status).toBe(200)
    }
  }

  const wasRefused = (path: RegExp) => log.some((line) => line.includes('disk_full') && path.test(line))

  /** The checkpoint from before is what answers, and what can be fetched. */
  async function expectServing(): Promise<void> {
    const { step } = await server.call<Model>(`/v1/preview/models/${modelId}`)
    expect(step).toBeGreaterThan(0)
    const chat = { model: 'local/p/m', messages: [{ role: 'user', content: 'a' }], max_tokens: 4 }
    const answer = await server.call<{ system_fingerprint: string }>('/v1/chat/completions', chat)
    expect(answer.system_fingerprint).toContain(`:step${step}:`)
    const files = `/v1/preview/models/${modelId}/checkpoints/${step}/files`
    expect((await server.fetch(`${files}/adapter_config.json`)).status).toBe(200)
  }

  async function expectWholeEnd(jobId: string, steps: number): Promise<void> {
    expect(await server.untilEnd(jobId)).toMatchObject({
      status: 'completed',
      attempt: 1,
      num_gradient_steps: steps,
    })
    const types = (await server.eventsOf(jobId)).map((event) => event.type)
    const middle = Array.from({ length: steps }, () => 'gradient_step')
    expect(types).toEqual(['training_started', ...middle, 'training_ended'])
  }

  it.each([
    ['its checkpoint', 40, /files\/|resume|complete/, true],
    ['its events', 150, /\/events/, false],
  ] as const)('%s: written when there is room again', async (_, steps, path, hasRoomForRows) => {
    if (hasRoomForRows) await makeRoomInDatabase()
    const { jobId, worker } = await server.stoppedJob(modelId, steps)
    fillDisk()
    process.kill(worker, 'SIGCONT')
    await until(() => wasRefused(path), `a refusal of ${path}`, 200_000)
    expect((await server.call<TrainingJob>(`/v1/preview/training-jobs/${jobId}`)).status).toBe('running')
    await expectServing()
    rmSync(ballast)
    await expectWholeEnd(jobId, steps)
  })

  it('a server is stopped to its end, and the next one takes the job', async () => {
    const { jobId, worker } = await server.stoppedJob(modelId, 40)
    // counted and not written yet
    const chat = { model: 'local/p/m', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 }
    await server.call('/v1/chat/completions', chat)
    fillDisk()
    process.kill(worker, 'SIGCONT')
    await server.kill('SIGTERM')
    await until(() => log.some((line) => line.includes('"service.stopped"')), 'the last line of the log')
    expect(server.child.exitCode).toBe(0)
    rmSync(ballast)
    const { apiKey } = server
    server = await startKillableServer({ dataDir: join(folder, 'data'), threads: 1, apiKey })
    expect(await server.untilEnd(jobId)).toMatchObject({ status: 'completed', num_gradient_steps: 40 })
  })
})
