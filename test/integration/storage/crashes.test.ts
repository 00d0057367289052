/**
 * Every state transition with a crash before each of its writes: what is found at the next start is either all of the transition or nothing
 * of it, with every blob that a row names whole.
 *
 * One run of a transition leaves copies of the data directory as a kill before each write would find it; at one of these points, another
 * with each transition, a process is killed indeed (`CRASH_KILLS=all`: at all of them).
 *
 * A crash is a process that dies, not a machine that loses power: the order of fsync is not tried here.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { countRows } from '#plugins/backup/storage/copy-rows.js'
import { wandbTables } from '#plugins/wandb/storage/tables.js'
import { webhookTables } from '#plugins/webhooks/storage/tables.js'
import { recoverInterrupted } from '#service/queue/recovery.js'
import { createLocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { openDataDir } from '#service/storage/data-dir.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'
import { openDatabase } from '../../support/service/with-plugins.js'

const SUPPORT = join(import.meta.dirname, '../../support/stand-ins')
const folder = await mkdtemp(join(tmpdir(), 'trainyard-crashes-'))
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 20 }))

const COUNTED = [
  'api_keys',
  'files',
  'fine_tuning_jobs',
  'idempotency_keys',
  'job_files',
  'kept_training_data',
  'model_metrics',
  'resume_points',
  'split_metrics',
  'trajectory_logs',
  'webhook_events',
  'webhooks',
  'webhook_deliveries',
  'wandb_runs',
  'wandb_history',
  'wandb_run_files',
  'wandb_artifacts',
  'wandb_artifact_files',
  'wandb_metadata',
]

interface Outcome {
  readonly point: number
  readonly signal: string | null
  readonly stdout: string
}

interface Uncrashed {
  readonly writes: number
  readonly result: unknown
}

const runner = startRunner()
afterAll(() => runner.stop())

/** One process for all runs of which none dies, one after the other. */
function startRunner() {
  const child = spawn(process.execPath, [join(SUPPORT, 'crash-runs.mjs')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let last: Promise<unknown> = Promise.resolve()
  const ask = async (args: readonly string[]): Promise<string> => {
    child.stdin.write(`${JSON.stringify(args)}\n`)
    const { value, done } = await answers.next()
    if (done === true) throw new Error(`the process ended at ${args.join(' ')}`)
    const { error } = JSON.parse(value) as { readonly error?: string }
    if (error !== undefined) throw new Error(`${args.join(' ')}: ${error}`)
    return value
  }
  return {
    run: <T>(dataDir: string, transition: string, point: number, copied: readonly number[] = []): Promise<T> => {
      const answer = last.then(() => ask([dataDir, transition, String(point), copied.join(',')]))
      last = answer.catch(() => undefined)
      return answer.then((text) => JSON.parse(text) as T)
    },
    stop: () => child.stdin.end(),
  }
}

/** One that dies. */
function killAt(dataDir: string, transition: string, point: number): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const args = [join(SUPPORT, 'crash-at-write.mjs'), dataDir, transition, String(point)]
    execFile(process.execPath, args, (error, stdout, stderr) => {
      const signal = error?.signal ?? null
      if (error !== null && signal !== 'SIGKILL') reject(new Error(`${transition} at ${point}: ${stderr}`))
      else resolve({ point, signal, stdout })
    })
  })
}

/** Starts on the directory as a server does, checks what must always hold, and tells what is there without its ids. */
async function stateOf(dataDir: string): Promise<unknown> {
  const directory = await openDataDir(dataDir)
  const { db: own, close } = await openDatabase(directory.databasePath)
  const db = wandbTables(own)
  await recoverInterrupted(own, systemIds, 60_000)
  const blobs = await createLocalBlobs(directory.blobsPath)
  for (const sha256 of await listReferencedBlobs(own)) {
    const bytes = await readFile(blobs.pathOf(sha256))
    expect(createHash('sha256').update(bytes).digest('hex'), 'a blob that a row names').toBe(sha256)
  }
  const jobs = await db.selectFrom('training_jobs').selectAll().orderBy('id').execute()
  const events = await db.selectFrom('events').select(['job_id', 'type']).orderBy('position').execute()
  const models = await db.selectFrom('models').select(['name', 'step']).orderBy('name').execute()
  const checkpoints = await db.selectFrom('checkpoints').select(['job_id', 'step']).orderBy('step').execute()
  const terminal = new Set(['training_ended', 'training_failed'])
  for (const job of jobs) {
    const ends = events.filter((event) => event.job_id === job.id && terminal.has(event.type))
    expect(ends.length, `terminal events of a ${job.status} job`).toBe(job.ended_at_ms === null ? 0 : 1)
  }
  const counts = (await countRows(own)).filter(({ name }) => COUNTED.includes(name))
  expect(counts.length).toBe(COUNTED.length)
  const usage = db.selectFrom('usage_days').select(['requests', 'prompt_tokens', 'completion_tokens'])
  const state = {
    usage: await usage.orderBy('model').execute(),
    deliveries: await webhookTables(own)
      .selectFrom('webhook_deliveries')
      .select(['status', 'attempts'])
      .orderBy('id')
      .execute(),
    runs: await db.selectFrom('wandb_runs').select(['state', 'summary']).execute(),
    versions: await db.selectFrom('wandb_artifacts').select(['version_index']).orderBy('id').execute(),
    aliases: await db.selectFrom('wandb_aliases').select('alias').orderBy('alias').execute(),
    models: models.map(({ name, step }) => ({ name: name.replace(/-[0-9a-f]{8}$/, ''), step })),
    checkpoints: checkpoints.map(({ step }) => step),
    jobs: jobs.map((job) => ({
      status: job.status,
      attempt: job.attempt,
      losses: job.losses,
      step: job.step,
      code: job.error_code,
      isCancelRequested: job.is_cancel_requested,
      hasInput: job.input_sha256 !== null,
      eventCount: job.event_count,
      events: events.filter((event) => event.job_id === job.id).map((event) => event.type),
    })),
    counts,
  }
  await close()
  directory.unlock()
  const sqlite = openSqlite(directory.databasePath, { readonly: true })
  expect([sqlite.pragma('integrity_check', { simple: true }), sqlite.pragma('foreign_key_check')]).toEqual(['ok', []])
  sqlite.close()
  return state
}

const { transitions, repeated } = await runner.run<{ transitions: string[]; repeated: string[] }>(
  join(folder, 'list'),
  'list',
  0,
)
/** Of transitions with more writes so many are crashed before, evenly spread with the first and the last; `CRASH_POINTS=all` takes every one. */
const MOST_POINTS = process.env['CRASH_POINTS'] === 'all' ? Number.POSITIVE_INFINITY : 12
function pointsOf(writes: number): number[] {
  const count = Math.min(writes, MOST_POINTS)
  return Array.from({ length: count }, (_, i) => 1 + Math.round((i * (writes - 1)) / Math.max(1, count - 1)))
}
/** Points of a transition, the i-th of all, at which a process is killed. */
function killsOf(taken: readonly number[], i: number): readonly number[] {
  return process.env['CRASH_KILLS'] === 'all' ? taken : taken.slice(i % taken.length).slice(0, 1)
}
/**
 * So many writes fewer than another a run may have made. How often an outbox looks hangs on when answers come: it may find a message that was
 * just sent, and ask in vain whether it may send it. All others always make the same writes: a point that is not reached would be one not tried.
 */
const SLACK: Readonly<Record<string, number>> = { 'deliver to a webhook': 1 }
async function killEach(points: readonly number[], kill: (point: number) => Promise<Outcome>): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const point of points) outcomes.push(await kill(point))
  return outcomes
}
let points = 0
let kills = 0

describe('a crash before each write of', { timeout: 600_000 }, () => {
  it.each(transitions)('%s leaves all of it or nothing', async (transition) => {
    const directory = (name: string) => join(folder, `${transition} ${name}`)
    await runner.run(directory('before'), transition, -1)
    const { writes, result } = await runner.run<Uncrashed>(directory('after'), transition, 0)
    expect(writes).toBeGreaterThan(0)
    const before = await stateOf(directory('before'))
    const after = await stateOf(directory('after'))
    const taken = pointsOf(writes)
    const killed = killsOf(taken, transitions.indexOf(transition))
    const [{ writes: copiedWrites }, outcomes] = await Promise.all([
      runner.run<Uncrashed>(directory('copied'), transition, 0, taken),
      killEach(killed, (point) => killAt(directory(`killed ${point}`), transition, point)),
    ])
    expect(await stateOf(directory('copied')), 'of which copies were made').toEqual(after)
    const slack = SLACK[transition] ?? 0
    if (slack === 0) expect(copiedWrites, 'writes of the run that makes copies').toBe(writes)
    else expect(copiedWrites, 'writes of the run that makes copies').toBeGreaterThanOrEqual(writes - slack)
    const left = new Set<string>()
    for (const point of taken.filter((point) => point <= copiedWrites)) left.add(directory(`copied ${point}`))
    for (const { point, signal, stdout } of outcomes) {
      if (signal === 'SIGKILL') {
        left.add(directory(`killed ${point}`))
        kills += 1
      } else {
        expect(point, 'a point that a run did not reach').toBeGreaterThan(writes - slack)
        expect((JSON.parse(stdout) as Uncrashed).writes, `writes, point ${point}`).toBeLessThan(point)
        expect(await stateOf(directory(`killed ${point}`)), `not reached: ${point}`).toEqual(after)
      }
    }
    for (const found of left) {
      const state = await stateOf(found)
      const isAll = JSON.stringify(state) === JSON.stringify(after)
      if (!isAll) expect(state, `${found} of ${writes}`).toEqual(before)
      points += 1
    }
    if (repeated.includes(transition)) {
      for (const found of left) {
        const again = await runner.run<Uncrashed>(found, transition, 0)
        expect(again.result, `${found} of ${writes}, begun again`).toEqual(result)
      }
    }
    for (const found of left) await rm(found, { recursive: true, force: true, maxRetries: 20 })
  })

  it('all of these is many crashes', () => {
    console.log(`${points} crashes in ${transitions.length} transitions, ${kills} of them kills`)
    // far fewer would mean that transitions are not tried or that writes are not counted
    expect(points).toBeGreaterThan(200)
    expect(kills).toBeGreaterThan(transitions.length / 2)
  })
})
