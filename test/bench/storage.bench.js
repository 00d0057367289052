/**
 * Reads and appends with many rows: 100,000 models and one job of 1,000,000 events, inserted by SQL. Each figure is the median
 * of several calls of the storage functions the routes use, beside the same calls on an almost empty database.
 *
 *     npm run bench -- storage
 *     npm run bench -- storage --over http      every list over HTTP, with filters and at its end (`loads/pages.js`)
 */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { openSqlite } from '../../dist/src/service/storage/sqlite.js'
import { runPages } from './loads/pages.js'

const dist = '../../dist/src'
const { openDatabase } = await import(`${dist}/service/storage/database.js`)
const { parts } = await import('../support/built-parts.mjs')
const { listModels } = await import(`${dist}/service/storage/models.js`)
const { findJob, listJobs } = await import(`${dist}/service/storage/training-jobs.js`)
const { listEvents } = await import(`${dist}/service/storage/events.js`)
const { appendEvents } = await import(`${dist}/service/queue/event-log.js`)
const { systemIds } = await import(`${dist}/base/util/ids.js`)

export const title = 'Storage: 100,000 models, a job of 1,000,000 events'

const MODELS = 100_000
const EVENTS = 1_000_000

export async function run(options = {}, print = () => {}) {
  if (options.over === 'http') return runPages(print)
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-storage-'))
  try {
    const small = await measure(path.join(directory, 'small.sqlite3'), 200, 200)
    const large = await measure(path.join(directory, 'large.sqlite3'), MODELS, EVENTS)
    return large.map(({ name, value }, i) => ({ name, value, unit: 'ms', ratio: value / small[i].value }))
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

async function measure(file, models, events) {
  await (await openDatabase(file, { parts })).close()
  fill(file, models, events)
  const { db, close } = await openDatabase(file, { parts })
  const page = { entity: 'local', limit: 100 }
  const rows = []
  const time = async (name, count, action) => {
    const times = []
    for (let i = 0; i < count; i += 1) {
      const startMs = performance.now()
      await action(i)
      times.push(performance.now() - startMs)
    }
    rows.push({ name, value: times.sort((a, b) => a - b)[Math.floor(count / 2)] })
  }
  await time('page of 100 models', 31, () => listModels(db, page))
  await time('page of 100 models, from the middle', 31, () => listModels(db, { ...page, after: id(models / 2) }))
  await time('page of 100 models of a project', 31, () => listModels(db, { ...page, project: 'p7' }))
  await time('page of jobs with their progress', 31, () => listJobs(db, page))
  await time('a job with its progress', 31, () => findJob(db, 'job'))
  await time('last page of its events', 31, () => listEvents(db, 'job', { limit: 100, after: id(events - 101) }))
  await time('appending one event', 31, (i) => {
    const event = { type: 'gradient_step', data: { loss: i } }
    return db.transaction().execute((t) => appendEvents(t, systemIds, 'job', { offset: events + i, events: [event] }))
  })
  await close()
  return rows
}

const id = (n) => `id${String(Math.floor(n)).padStart(9, '0')}`

function fill(file, models, events) {
  const sqlite = openSqlite(file)
  sqlite.pragma('synchronous = OFF')
  const numbers = 'with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ?)'
  sqlite
    .prepare(
      `insert into models (id, entity, project, name, base_model, run_id, step)
      ${numbers} select printf('id%09d', i), 'local', 'p' || (i % 10), 'n' || i, 'b', 'r', 0 from n`,
    )
    .run(models)
  sqlite
    .prepare(
      `insert into training_jobs (id, entity, model_id, kind, status, config, request_digest, event_count, gradient_step_count)
      values ('job', 'local', 'id000000000', 'rl', 'running', '{}', 'd', ?, ?)`,
    )
    .run(events, events)
  sqlite
    .prepare(
      `insert into events (id, job_id, position, type, data)
      ${numbers} select printf('id%09d', i), 'job', i, 'gradient_step', '{"loss":1}' from n`,
    )
    .run(events)
  sqlite.close()
}
