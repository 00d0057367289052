/**
 * How batches are answered, by a real database and real files; who is asked is scripted, and the clock is set.
 */
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { createBatchResults } from '#plugins/batches/batch-results.js'
import { type BatchRunner, createBatchRunner } from '#plugins/batches/batch-runner.js'
import { createBatchService, LIFE_MS } from '#plugins/batches/batches.js'
import { NO_USAGE, takeUp } from '#plugins/batches/storage/batches.js'
import type { Batch } from '#plugins/batches/wire.js'
import type { Principal } from '#service/operations/context.js'
import { createFileService } from '#service/operations/files.js'
import { createLocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { openDataDir } from '#service/storage/data-dir.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'
import { openDatabase } from '../../support/service/with-plugins.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'
import { until } from '../../support/until.js'

const OWNER: Principal = {
  ...{ entity: 'e', project: 'p', keyId: 'k', keyPrefix: '', sessionId: null, scope: 'write', usageProject: null },
}

let database: OpenDatabase
let runner: BatchRunner
let aheadMs: number
/** Requests of people that are being answered. */
let others: number
let context: Awaited<ReturnType<typeof open>>
/** What the next questions are answered, by the `prompt` of a line. */
let say: (prompt: string, principal: Principal, signal: AbortSignal) => Promise<Response>
const asked: string[] = []

async function open() {
  const directory = await temporaryDirectory()
  ;(await openDataDir(directory)).unlock()
  database = await openDatabase(join(directory, 'rows.sqlite3'))
  aheadMs = 0
  others = 0
  const clock = { nowMs: () => Date.now() + aheadMs, monotonicMs: () => performance.now() }
  const blobs = await createLocalBlobs(join(directory, 'blobs'), clock)
  const logger = createLogger({ level: 'silent' })
  return { db: database.db, blobs, clock, ids: systemIds, logger, requestSweep: () => undefined }
}

beforeEach(async () => {
  context = await open()
  asked.length = 0
  runner = createBatchRunner(context, {
    files: createFileService(context),
    ...{ atOnce: 2, perMinute: null, countRequests: () => others, flushMs: 10, retryMs: 1, longestRetryMs: 2 },
    ask: async (principal, request) => {
      const { prompt } = (await request.json()) as { prompt: string }
      asked.push(prompt)
      return say(prompt, principal, request.signal)
    },
  })
})
afterEach(async () => {
  await runner.stop()
  await database.close()
})

const answer = (text: string) => Response.json({ text, usage: { prompt_tokens: 1, completion_tokens: 2 } })
const batches = () => createBatchService(context, runner)

async function submit(prompts: readonly string[]): Promise<string> {
  const endpoint = '/v1/completions'
  const lines = prompts.map((prompt) => ({ custom_id: prompt, method: 'POST', url: endpoint, body: { prompt } }))
  const bytes = lines.map((line) => Buffer.from(`${JSON.stringify(line)}\n`))
  const fields = async () => ({ filename: 'f', purpose: 'batch', artifact: null })
  const file = await createFileService(context).upload(OWNER, readable(bytes), fields, null)
  const request = { input_file_id: file.id, endpoint, completion_window: '24h' } as const
  return (await batches().create(OWNER, request, null)).id
}

async function* readable(bytes: readonly Uint8Array[]) {
  yield* bytes
}

const untilIn = (id: string, status: Batch['status']) =>
  until(async () => {
    const batch = await batches().get(OWNER, id)
    return batch.status === status && batch
  }, `${status} of ${id}`)

async function read(id: string | null): Promise<readonly Record<string, unknown>[]> {
  const chunks: Uint8Array[] = []
  const { stream } = await createFileService(context).open(OWNER, id ?? '')
  for await (const chunk of stream) chunks.push(chunk as Uint8Array)
  const lines = Buffer.concat(chunks).toString().trimEnd().split('\n')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** Never, or the end of the question. */
const never = (signal: AbortSignal) =>
  new Promise<Response>((resolve) =>
    signal.addEventListener('abort', () => resolve(new Response('', { status: 499 })), { once: true }),
  )

it('asks for whoever made it, behind all others, and lets go of what it kept', async () => {
  const seen: Principal[] = []
  say = async (prompt, principal) => {
    seen.push(principal)
    return answer(prompt)
  }
  const batch = await untilIn(await submit(['a', 'b', 'c']), 'completed')
  expect(batch.request_counts).toEqual({ total: 3, completed: 3, failed: 0 })
  expect(batch.usage.total_tokens).toBe(9)
  expect(seen[0]).toMatchObject({ entity: 'e', project: 'p', keyId: 'k', priority: expect.any(Number) })
  // the files of requests and answers, and nothing else
  expect((await listReferencedBlobs(context.db)).size).toBe(2)
})

it('asks again what cannot be had now, and a failure of the server three times', async () => {
  let busy = 0
  say = async (prompt) => {
    if (prompt === 'busy' && ++busy < 9) return new Response('{}', { status: busy % 2 === 0 ? 429 : 503 })
    if (prompt === 'broken') return Response.json({ error: { message: 'it broke' } }, { status: 500 })
    return answer(prompt)
  }
  const batch = await untilIn(await submit(['busy', 'broken', 'fine']), 'completed')
  expect(batch.request_counts).toEqual({ total: 3, completed: 2, failed: 1 })
  expect(asked.filter((prompt) => prompt === 'busy')).toHaveLength(9)
  expect(asked.filter((prompt) => prompt === 'broken')).toHaveLength(3)
  expect(await read(batch.error_file_id)).toMatchObject([
    { custom_id: 'broken', response: { status_code: 500, body: { error: { message: 'it broke' } } }, error: null },
  ])
})

it('expires after its day with what is answered, and says which lines are not', async () => {
  say = async (prompt, _, signal) => (prompt.startsWith('open') ? never(signal) : answer(prompt))
  const id = await submit(['a', 'b', 'open 1', 'open 2', 'open 3'])
  await until(async () => (await batches().get(OWNER, id)).request_counts.completed === 2, 'two answers')
  aheadMs = LIFE_MS
  const batch = await untilIn(id, 'expired')
  expect(batch).toMatchObject({ request_counts: { total: 5, completed: 2 }, expired_at: expect.any(Number) })
  expect((await read(batch.output_file_id)).map((line) => line['custom_id']).sort()).toEqual(['a', 'b'])
  const unanswered = ['open 1', 'open 2', 'open 3'].map((custom_id) => ({
    custom_id,
    error: { code: 'batch_expired' },
  }))
  expect(await read(batch.error_file_id)).toMatchObject(unanswered)
})

it('goes on from its pieces, and refuses what an earlier attempt still writes', async () => {
  say = async (prompt, _, signal) => (prompt === 'open' ? never(signal) : answer(prompt))
  const id = await submit(['a', 'open', 'b'])
  await until(async () => (await batches().get(OWNER, id)).request_counts.completed === 2, 'two answers')
  const late = { line: 2, text: '{"custom_id":"late"}\n', isError: false, usage: NO_USAGE }
  const before = createBatchResults(context, { id, attempt: 1 })
  // as another server does that has found this one silent
  expect((await takeUp(context.db, id))?.attempt).toBe(2)
  await before.add(late)
  await expect(before.flush()).rejects.toMatchObject({ code: 'batch_taken_over' })
  await runner.stop()
  say = async (prompt) => answer(prompt)
  asked.length = 0
  runner = createBatchRunner(context, {
    files: createFileService(context),
    ...{ atOnce: 2, perMinute: null, countRequests: () => others, flushMs: 10 },
    ask: async (_, request) => {
      const { prompt } = (await request.json()) as { prompt: string }
      asked.push(prompt)
      return answer(prompt)
    },
  })
  runner.wake()
  const batch = await untilIn(id, 'completed')
  expect(asked).toEqual(['open'])
  expect((await read(batch.output_file_id)).map((line) => line['custom_id'])).toEqual(['a', 'b', 'open'])
})

it('asks one line at a time while people ask, and a few when they are silent', async () => {
  let open = 0
  let most = 0
  say = async (prompt) => {
    open++
    most = Math.max(most, open)
    await new Promise((resolve) => setTimeout(resolve, 5))
    open--
    return answer(prompt)
  }
  others = 8
  await untilIn(await submit(['a', 'b', 'c', 'd', 'e', 'f']), 'completed')
  expect(most).toBe(1)
  others = 0
  await untilIn(await submit(Array.from({ length: 200 }, (_, i) => `${i}`)), 'completed')
  expect(most).toBe(2)
})
