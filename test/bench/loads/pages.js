/**
 * Every list over HTTP with many rows: 100,000 models, 10,000 jobs, a job of 1,000,000 events, 100,000 logged trajectory groups,
 * files, deliveries and runs; at the first page, in the middle and at the end, with every filter. One request at a time, so that a
 * figure is what one page costs the server and whoever waits behind it. Beside it, for machines that are busy with something else: the
 * processor time of the event loop, and the clock's time less what it and this client waited for a processor. Then plain requests
 * per second.
 *
 *     npm run bench -- storage --over http
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { openSqlite } from '../../../dist/src/service/storage/sqlite.js'
import { startService } from '../../support/service/service-process.js'
import { createClient, processorSeconds, quantile } from '../support/http-load.js'

const { openDatabase } = await import('../../../dist/src/service/storage/database.js')
const { parts } = await import('../../support/built-parts.mjs')
const { createLocalKey } = await import('../../../dist/src/plugins/data-directory.js')

const MODELS = 100_000
const JOBS = 10_000
const EVENTS = 1_000_000
const LOGS = 100_000
const CHECKPOINTS = 10_000
const OTHERS = 100_000
/** So many times each page: the worst one of a hundred is not what hiccups of the machine decide. */
const ASKED = 300
/** Asked before: a server that has just started compiles its own code and loads its engine. */
const WARMUPS = 300
const LOAD_MS = 4000
const SENDERS = 16

/** Every tenth model is of project p3, also those that cursors name. */
const ofProject3 = (n) => n - (n % 10) + 3

/** Ids in order, one kind of thing each. */
const id = (kind, n) => `0190000${kind}-0000-7000-8000-${Math.max(0, Math.floor(n)).toString(16).padStart(12, '0')}`
const idColumn = (kind, n = 'i') => `printf('0190000${kind}-0000-7000-8000-%012x', ${n})`
const KIND = { model: 1, job: 2, event: 3, log: 4, checkpoint: 5, file: 6, webhook: 7, delivery: 8, run: 9 }
const MODEL = id(KIND.model, 0)
const JOB = id(KIND.job, 0)

export async function runPages(print) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-pages-'))
  try {
    const file = path.join(directory, 'trainyard.sqlite3')
    await (await openDatabase(file, { parts })).close()
    fill(file)
    await createLocalKey(directory)
    const service = await startService({ keptDir: directory })
    try {
      const call = createClient(service)
      const { pid } = service.child
      for (let i = 0; i < WARMUPS; i++) await call('GET', `/v1/preview/training-jobs/${JOB}`)
      for (const [name, paths] of Object.entries(pages())) print(await timed(call, name, paths, pid))
      return await perSecond(call, service)
    } finally {
      await service.stop()
    }
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Route → the pages of it that are asked for. */
function pages() {
  const models = '/v1/preview/models'
  const jobs = '/v1/preview/training-jobs'
  const log = `${models}/${MODEL}/log`
  const checkpoints = `${models}/${MODEL}/checkpoints`
  const at = (address, kind, count, isNewestFirst = true) => {
    const join = address.includes('?') ? '&' : '?'
    const last = isNewestFirst ? 20 : count - 20
    return [
      `${address}${join}limit=100`,
      ...[count / 2, last]
        .map((n) => (kind === KIND.model ? ofProject3(n) : n))
        .map((n) => `${address}${join}limit=100&after=${id(kind, n)}`),
    ]
  }
  const deliveries = `/v1/preview/webhooks/${id(KIND.webhook, 0)}/deliveries`
  const filters = {
    models: [
      'project=p3',
      'name=n77',
      'name=none',
      'base_model=other',
      'base_model=none',
      'project=p3&base_model=none',
    ],
    jobs: [
      'status=failed',
      'status=running',
      `model_id=${MODEL}`,
      `model_id=${MODEL}&status=failed`,
      `model_id=${MODEL}&status=running`,
    ],
    logs: ['split=val', 'split=none', 'step=7', 'step=999', 'split=val&step=7', 'split=val&step=999'],
  }
  return {
    'a job of 1,000,000 events': [`${jobs}/${JOB}`],
    models: at(models, KIND.model, MODELS, false),
    'models, filtered': filters.models.map((filter) => `${models}?limit=100&${filter}`),
    'models, filtered, behind a cursor': ['project=p3', 'base_model=trainyard/spark', 'base_model=none'].flatMap(
      (filter) => at(`${models}?${filter}`, KIND.model, MODELS, false),
    ),
    'training jobs': at(jobs, KIND.job, JOBS),
    'training jobs, filtered': filters.jobs.flatMap((filter) => at(`${jobs}?${filter}`, KIND.job, JOBS)),
    'events of a job': at(`${jobs}/${JOB}/events`, KIND.event, EVENTS, false),
    'logged trajectory groups': at(log, KIND.log, LOGS),
    'the same, filtered': filters.logs.flatMap((filter) => at(`${log}?${filter}`, KIND.log, LOGS)),
    checkpoints: ['asc', 'desc'].flatMap((order) =>
      at(`${checkpoints}?order=${order}`, KIND.checkpoint, CHECKPOINTS, order === 'desc'),
    ),
    files: at('/v1/files', KIND.file, OTHERS),
    'files, filtered': ['purpose=evals', 'purpose=fine-tune', 'purpose=evals&order=asc'].flatMap((filter) =>
      at(`/v1/files?${filter}`, KIND.file, OTHERS),
    ),
    'fine-tuning jobs': [
      '/v1/fine_tuning/jobs?limit=100',
      ...[JOBS / 2, 20].map((n) => `/v1/fine_tuning/jobs?limit=100&after=ftjob-${id(KIND.job, n)}`),
    ],
    'webhooks, deliveries': at(deliveries, KIND.delivery, OTHERS),
    "a model's runs": [`${models}/${MODEL}/runs?limit=100`],
    'history of a run': [0, OTHERS / 2, OTHERS - 20].map(
      (line) => `${models}/${MODEL}/runs/${id(KIND.run, 0)}/history?limit=100&after=${line}`,
    ),
    'API keys': ['/v1/preview/keys?limit=100'],
    'usage of a day': ['/v1/usage?from=2026-01-01&to=2026-01-01', '/v1/usage?from=2026-01-01&to=2026-01-01&project=p3'],
    'base models with counts': ['/v1/preview/base-models/details'],
    'one name of what chat serves': ['/v1/models/local/p3/n3', '/v1/models/trainyard/spark'],
  }
}

/** What a process's first thread has run, and waited for a processor: `schedstat` of proc(5). */
export function scheduled(pid) {
  const [runMs, waitedMs] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8')
    .split(' ')
    .map((ns) => Number(ns) / 1e6)
  return { runMs, waitedMs }
}

/** The slowest of a route's pages at its 99th percentile. */
async function timed(call, name, paths, pid) {
  let worst = { p99: -1 }
  let busyMs = 0
  let undisturbedMs = 0
  for (const address of paths) {
    const times = []
    const processor = []
    const undisturbed = []
    for (let i = 0; i < ASKED + 5; i++) {
      const [server, client] = [scheduled(pid), scheduled(process.pid)]
      const startMs = performance.now()
      const { status, text } = await call('GET', address)
      if (status !== 200) throw new Error(`${address}: ${status} ${text.slice(0, 300)}`)
      if (i < 5) continue
      const timeMs = performance.now() - startMs
      const [serverThen, clientThen] = [scheduled(pid), scheduled(process.pid)]
      times.push(timeMs)
      processor.push(serverThen.runMs - server.runMs)
      undisturbed.push(timeMs - (serverThen.waitedMs - server.waitedMs) - (clientThen.waitedMs - client.waitedMs))
    }
    busyMs = Math.max(busyMs, quantile(processor, 0.99))
    undisturbedMs = Math.max(undisturbedMs, quantile(undisturbed, 0.99))
    const found = { address, p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
    if (found.p99 > worst.p99) worst = found
  }
  const query = worst.address.includes('?') ? worst.address.slice(worst.address.indexOf('?')) : ''
  const shown = query.replace(/[?&]limit=100/, '').replaceAll(/0190000\d-0000-7000-8000-0*/g, '#')
  const beside = `median ${worst.p50.toFixed(1)}, processor p99 ${busyMs.toFixed(1)}, without waiting p99 ${undisturbedMs.toFixed(1)}`
  return {
    name: `${name} (${beside}) ${paths.length > 1 ? shown : ''}`.trim(),
    value: worst.p99,
    unit: 'ms p99',
    target: '<= 10',
  }
}

async function perSecond(call, service) {
  const rows = []
  for (const [name, address, target] of [
    ['GET /v1/health', '/v1/health', 2000],
    ['GET of a job of 1,000,000 events, with a key', `/v1/preview/training-jobs/${JOB}`, 1000],
  ]) {
    const loopSeconds = () => processorSeconds(service.child.pid)["the server's event loop"]
    const startSeconds = loopSeconds()
    const endMs = performance.now() + LOAD_MS
    let count = 0
    await Promise.all(
      Array.from({ length: SENDERS }, async () => {
        while (performance.now() < endMs) {
          const { status } = await call('GET', address)
          if (status !== 200) throw new Error(`${name}: ${status}`)
          count += 1
        }
      }),
    )
    rows.push({ name, value: count / (LOAD_MS / 1000), unit: '1/s', target: `>= ${target}` })
    // the load takes a core of its own: this is what the server could do at most
    const costMs = ((loopSeconds() - startSeconds) * 1000) / count
    rows.push({ name: `the same: processor time of the event loop for one`, value: costMs, unit: 'ms' })
  }
  return rows
}

function fill(file) {
  const sqlite = openSqlite(file)
  sqlite.pragma('synchronous = OFF')
  sqlite.pragma('foreign_keys = OFF')
  const insert = (table, columns, values, count) =>
    sqlite
      .prepare(
        `insert into ${table} (${columns}) with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${count})
        select ${values} from n`,
      )
      .run()
  insert(
    'models',
    'id, entity, project, name, base_model, run_id, step',
    `${idColumn(KIND.model)}, 'local', 'p' || (i % 10), 'n' || i, iif(i % 1000 = 7, 'other', 'trainyard/spark'), 'r' || i, iif(i = 0, ${CHECKPOINTS}, 0)`,
    MODELS,
  )
  insert(
    'training_jobs',
    'id, entity, project, model_id, kind, status, config, request_digest, event_count, gradient_step_count, started_at_ms, ended_at_ms',
    `${idColumn(KIND.job)}, 'local', 'p0', ${idColumn(KIND.model, 'iif(i < 5000, 0, i)')}, 'rl', iif(i % 100 = 1, 'failed', 'completed'), '{}', 'd',
     iif(i = 0, ${EVENTS}, 0), iif(i = 0, ${EVENTS}, 0), 1, 2`,
    JOBS,
  )
  insert(
    'events',
    'id, job_id, position, type, data',
    `${idColumn(KIND.event)}, '${JOB}', i, 'gradient_step', '{"loss":1,"reward":0.5}'`,
    EVENTS,
  )
  insert(
    'trajectory_logs',
    'id, model_id, split, step, body_sha256, group_count, trajectory_count, metrics',
    `${idColumn(KIND.log)}, '${MODEL}', iif(i % 2 = 0, 'train', 'val'), i % 100, 'x', 1, 8, '{"reward":0.5,"turns":3}'`,
    LOGS,
  )
  insert(
    'checkpoints',
    'id, model_id, step, kind, job_id, adapter_digest, metrics',
    `${idColumn(KIND.checkpoint)}, '${MODEL}', i + 1, 'rl', ${idColumn(KIND.job)}, 'x', '{"reward":0.5}'`,
    CHECKPOINTS,
  )
  for (const name of ['adapter_config.json', 'adapter_model.safetensors']) {
    insert(
      'checkpoint_files',
      'checkpoint_id, name, sha256, size_bytes',
      `${idColumn(KIND.checkpoint)}, '${name}', 'x', 1`,
      CHECKPOINTS,
    )
  }
  insert(
    'files',
    'id, entity, filename, purpose, sha256, size_bytes',
    `${idColumn(KIND.file)}, 'local', 'f' || i, iif(i = 50, 'evals', 'fine-tune'), 'x', 1`,
    OTHERS,
  )
  insert(
    'fine_tuning_jobs',
    'job_id, entity, project, request_digest, request, trained_name, hyperparameters',
    `${idColumn(KIND.job)}, 'local', 'p0', 'd', '{"model":"trainyard/spark","training_file":"file-x"}', 'n' || i, '{}'`,
    JOBS,
  )
  insert(
    'webhooks',
    'id, entity, url, secret, events',
    `${idColumn(KIND.webhook)}, 'local', 'https://example.com/', 's', '[]'`,
    100,
  )
  insert(
    'webhook_deliveries',
    'id, webhook_id, event_id, event_type, body, status',
    `${idColumn(KIND.delivery)}, '${id(KIND.webhook, 0)}', 'e' || i, 'training_job.failed', '{}', 'delivered'`,
    OTHERS,
  )
  insert(
    'wandb_runs',
    'id, entity, project, name, display_name, state, attributes, config, summary',
    `${idColumn(KIND.run)}, 'local', 'p0', 'r' || i, 'n' || i, 'finished', '{}', '{}', '{}'`,
    JOBS,
  )
  insert('wandb_history', 'run_id, line, body', `'${id(KIND.run, 0)}', i, '{"reward":0.5,"_step":1}'`, OTHERS)
  insert(
    'api_keys',
    'id, entity, key_hash, key_prefix, project',
    `'key' || printf('%06d', i), 'local', 'hash' || i, 'ty', 'p1'`,
    1000,
  )
  insert(
    'usage_days',
    'entity, day, project, model, requests',
    `'local', date('2026-01-01', (i % 100) || ' days'), 'p' || (i % 10), 'm' || i, 1`,
    OTHERS,
  )
  sqlite.close()
}
