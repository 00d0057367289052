/**
 * A thousand creates of jobs at 64 at once, on PostgreSQL and on SQLite in turns: how long each takes, and what they cost the server, the database and the client. The load
 * comes from this process, so on two cores it competes with both: the processor time of each says more than the clock on a busy machine.
 *
 *     node test/bench/loads/creates.js 5        so many turns
 */
import { startService } from '../../support/service/service-process.js'
import { createClient, processorSeconds, quantile } from '../support/http-load.js'
import { median } from '../support/median.js'
import { startPostgres } from '../support/postgres.js'

const RL = '/v1/preview/training-jobs'
const JOBS = 1000
const AT_ONCE = 64
const MODELS = 50

async function run(turns) {
  const postgres = await startPostgres()
  if (postgres === null) throw new Error('PostgreSQL is not installed (apt-get install postgresql)')
  try {
    const kinds = { PostgreSQL: () => ['--single-server', '--database', postgres.createDatabase()], SQLite: () => [] }
    const results = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]))
    for (let turn = 0; turn < turns; turn += 1) {
      for (const [kind, argsOf] of Object.entries(kinds)) {
        const result = await createJobs(argsOf(), kind === 'SQLite' ? null : postgres)
        results[kind].push(result)
        console.log(`turn ${turn + 1}, ${kind}: ${JSON.stringify(result)}`)
      }
    }
    return Object.entries(results).flatMap(([kind, all]) => rowsOf(kind, all))
  } finally {
    await postgres.stop()
  }
}

function rowsOf(kind, all) {
  const of = (field) => median(all.map((result) => result[field]))
  const name = `${kind}: ${JOBS} creates at ${AT_ONCE} at once`
  return [
    { name: `${name}, p50`, value: of('p50'), unit: 'ms' },
    { name: `${name}, p99`, value: of('p99'), unit: 'ms', target: '<= 250 ms' },
    {
      name: 'the same: answers that are no 200',
      value: Math.max(...all.map(({ failed }) => failed)),
      unit: '',
      target: '0',
    },
    { name: 'the same: creates a second', value: of('perSecond'), unit: '' },
    { name: 'the same: processor time of the server, each', value: of('serverMs'), unit: 'ms' },
    { name: 'the same: processor time of PostgreSQL, each', value: of('databaseMs'), unit: 'ms' },
    { name: 'the same: processor time of the client, each', value: of('clientMs'), unit: 'ms' },
    { name: 'the same: transactions that were repeated', value: of('retries'), unit: '' },
  ]
}

async function createJobs(args, postgres) {
  const service = await startService({
    args: [...args, '--train-workers', '0', '--max-queued-jobs', '2000', '--requests-per-minute', '1000000'],
  })
  try {
    const call = createClient(service, AT_ONCE)
    const post = async (path, body, key) => {
      const { status, text } = await call('POST', path, body, key === undefined ? {} : { 'idempotency-key': key })
      return { status, text }
    }
    const models = []
    for (let i = 0; i < MODELS; i += 1) {
      const { text } = await post('/v1/preview/models', { project: 'p', name: `m${i}`, base_model: 'trainyard/spark' })
      models.push(JSON.parse(text).id)
    }
    // what the first requests compile is not what is measured
    for (let i = 0; i < 100; i += 1) await call('POST', RL, jobOf(models[i % MODELS], -1 - i))
    const before = costs(service, postgres)
    const startMs = performance.now()
    const times = []
    let failed = 0
    let next = 0
    const client = async () => {
      while (next < JOBS) {
        const index = next++
        const sentMs = performance.now()
        const { status, text } = await post(RL, jobOf(models[index % MODELS], index), `job ${index}`)
        times.push(performance.now() - sentMs)
        if (status !== 200 && failed++ === 0) console.error(status, text.slice(0, 300))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, client))
    const seconds = (performance.now() - startMs) / 1000
    const after = costs(service, postgres)
    const metrics = (await call('GET', '/metrics')).text
    const each = (part) => ((after[part] - before[part]) * 1000) / JOBS
    return {
      p50: quantile(times, 0.5),
      p99: quantile(times, 0.99),
      failed,
      perSecond: JOBS / seconds,
      serverMs: each('server'),
      databaseMs: each('database'),
      clientMs: each('client'),
      retries: Number(/^trainyard_database_\w*retries\w* (\d+)/m.exec(metrics)?.[1] ?? 0),
    }
  } finally {
    await service.stop()
  }
}

/** Processor seconds so far. */
function costs(service, postgres) {
  const { user, system } = process.cpuUsage()
  return {
    server: Object.values(processorSeconds(service.child.pid)).reduce((sum, each) => sum + each, 0),
    database: postgres?.processorSeconds() ?? 0,
    client: (user + system) / 1e6,
  }
}

function jobOf(modelId, seed) {
  const trajectory = (reward) => ({
    messages_and_choices: [
      { role: 'user', content: `Say ${seed}.` },
      { role: 'assistant', content: 'yes' },
    ],
    reward,
  })
  return { model_id: modelId, trajectory_groups: [{ trajectories: [trajectory(1), trajectory(0)] }] }
}

for (const { name, value, unit, target } of await run(Number(process.argv[2] ?? 3))) {
  console.log(`${name}: ${value.toFixed(2)} ${unit}${target === undefined ? '' : ` (wanted ${target})`}`)
}
