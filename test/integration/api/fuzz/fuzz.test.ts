/**
 * A fuzzer that knows the schemas: for every route it makes requests that nearly fit, mutates them, and sends them to a server in a
 * process of its own with its real engine and workers. Nothing may answer 5xx, show a key, a path of this machine or a stack, keep
 * memory or descriptors, or end the service.
 *
 * `FUZZ_REQUESTS` asks for more than the few of a test run, `FUZZ_SEED` repeats one: a failure names its seed and request.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { API_ROUTES, type Route } from '#contract/endpoints/table.js'
import { sampleGroup } from '../../../support/service/create-test-service.js'
import { startFakeHub } from '../../../support/service/fake-hub.js'
import { startService } from '../../../support/service/service-process.js'
import { until } from '../../../support/until.js'
import { createMutator, type KnownNames, type MutatedRequest } from './mutated-requests.js'

const COUNT = Number(process.env['FUZZ_REQUESTS'] ?? 600)
const SEED = process.env['FUZZ_SEED'] ?? 'fuzz'
const IN_FLIGHT = 8
/** What exists is made anew after so many: requests delete some of it. */
const RENEW_AFTER = 5000
const TELLER = join(import.meta.dirname, '../../../support/stand-ins/tell-resources.cjs')

let hub: Awaited<ReturnType<typeof startFakeHub>>
let service: Awaited<ReturnType<typeof startService>>
const folder = mkdtempSync(join(tmpdir(), 'trainyard-fuzz-'))
const resourceFile = join(folder, 'resources')
const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT })

beforeAll(async () => {
  hub = await startFakeHub()
  service = await startService({
    // a small context: answers of any allowed length end soon
    args: [
      ...['--base-model', 'trainyard/tiny-random', '--max-context-length', '96', '--threads', '1'],
      ...['--kv-cache-memory', '64mb', '--webhook-host', '127.0.0.1:9', '--log-level', 'error'],
    ],
    env: { HF_ENDPOINT: hub.url, NODE_OPTIONS: `--require ${TELLER}`, TELL_RESOURCES: resourceFile },
  })
})
afterAll(async () => {
  agent.destroy()
  await service.stop()
  hub.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
})

/** One of everything, under the names that paths and bodies have for it. */
async function createOneOfEach(round: number): Promise<KnownNames> {
  const { api } = service
  const { id: model } = await api.call('POST', '/v1/preview/models', {
    project: 'tests',
    name: `fuzzed-${round}`,
    base_model: 'trainyard/tiny-random',
    return_existing: true,
  })
  const job = await api.call('POST', '/v1/preview/training-jobs', {
    model_id: model,
    trajectory_groups: [sampleGroup()],
  })
  await until(
    async () => {
      const { training_end } = await api.call('GET', `/v1/preview/training-jobs/${job.id}`)
      return training_end !== null
    },
    'the first job',
    COUNT * 200,
  )
  const turn = (role: string) => ({ role, content: 'a' })
  const file = await api.uploadRows([{ messages: [turn('user'), turn('assistant')] }])
  const tuned = await api.call('POST', '/v1/fine_tuning/jobs', { model: 'trainyard/tiny-random', training_file: file })
  const webhook = await api.call('POST', '/v1/preview/webhooks', { url: 'http://127.0.0.1:9/' })
  const key = await api.call('POST', '/v1/preview/keys', { name: 'fuzzed', scope: 'read' })
  const answer = await api.call('POST', '/v1/responses', { model: 'trainyard/tiny-random', input: 'hi' })
  await api.call('POST', `/v1/preview/models/${model}/log`, {
    split: 'val',
    trajectory_groups: [sampleGroup()],
  })
  // with a job that may still wait or run when it is deleted
  const spare = await api.createModel(`spare-${round}`, 'trainyard/tiny-random')
  await api.call('POST', '/v1/preview/training-jobs', { model_id: spare.id, trajectory_groups: [sampleGroup()] })
  const { data: logs } = await api.call('GET', `/v1/preview/models/${model}/log`)
  return {
    model_id: model,
    spare_model_id: spare.id,
    training_job_id: job.id,
    fine_tuning_job_id: tuned.id,
    file_id: file,
    training_file: file,
    training_data_url: file,
    webhook_id: webhook.id,
    key_id: key.id,
    response_id: answer.id,
    log_id: logs[0].id,
    step: '1',
    name: 'adapter_config.json',
    page: 'api',
    id: `local/tests/fuzzed-${round}`,
    model: `local/tests/fuzzed-${round}`,
    base_model: 'trainyard/tiny-random',
    project: 'tests',
  }
}

interface Answer {
  readonly status: number
  readonly text: string
}

/** As it stands: no client in between that would mend the address or refuse a body. */
function send(wanted: MutatedRequest, isKnown: boolean): Promise<Answer> {
  const { method, address, body, type } = wanted
  const { hostname, port } = new URL(service.url)
  const headers = {
    ...(isKnown ? { authorization: `Bearer ${service.key}` } : {}),
    ...(type === undefined || type === '' ? {} : { 'content-type': type }),
    ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
  }
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, agent, method, path: address, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    sent.on('error', (error) => {
      // a kept connection that the server has closed for being idle, as happens when this process was held up
      if (sent.reusedSocket) resolve(send(wanted, isKnown))
      else reject(new Error(`${method} ${address.slice(0, 300)} ${(body ?? '').slice(0, 1000)}`, { cause: error }))
    })
    sent.end(body)
  })
}

/** Resident megabytes and descriptors of the server and of its engine, and what the server's heap holds after a collection. */
async function resources() {
  const pid = service.child.pid ?? 0
  const lines = () => (existsSync(resourceFile) ? readFileSync(resourceFile, 'utf8').trim().split('\n') : [])
  const before = lines().length
  process.kill(pid, 'SIGUSR2')
  const told = await until(() => lines().length > before && lines().at(-1), 'the server telling what it holds')
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  const engine = children.find((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('dist/src/inference/'),
  )
  const of = (process: string | number) => ({
    rssMb: Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process}/status`, 'utf8'))?.[1]) / 1024),
    descriptors: readdirSync(`/proc/${process}/fd`).length,
  })
  const held = JSON.parse(told) as { heapMb: number; handles: number }
  return {
    server: { ...of(pid), ...held },
    engine: engine === undefined ? null : of(engine),
    processes: children.length,
  }
}

/** Deletes what the other routes need: it gets a model of its own. */
const endsModel = ({ method, path }: Route) => method === 'DELETE' && path === '/v1/preview/models/{model_id}'

it(`answers ${COUNT} mutated requests without a fault`, { timeout: 120_000 + COUNT * 200 }, async () => {
  const mutator = createMutator(createRng(SEED))
  const seen = new Map<number, number>()
  const cost = new Map<string, number>()
  let known = await createOneOfEach(0)

  async function ask(i: number): Promise<void> {
    const route = API_ROUTES[i % API_ROUTES.length] as Route
    const isKnown = mutator.chance(0.98)
    const sent = mutator.next(route, endsModel(route) ? { ...known, model_id: known['spare_model_id'] ?? '' } : known)
    const startedAt = performance.now()
    const { status, text } = await send(sent, isKnown)
    const name = `${route.method} ${route.path}`
    cost.set(name, (cost.get(name) ?? 0) + performance.now() - startedAt)
    const what = `seed ${SEED}, request ${i}: ${sent.method} ${sent.address.slice(0, 300)} ${(sent.body ?? '').slice(0, 1000)}\n${status} ${text.slice(0, 500)}`
    seen.set(status, (seen.get(status) ?? 0) + 1)
    // 501 names what is known and not here, and the system check says with 503 that a part is slow, as on a busy machine; nothing
    // else of the server's may be wrong
    const isSlow = status === 503 && route.path === '/v1/system-check'
    expect(status === 501 || isSlow || (status >= 100 && status < 500), what).toBe(true)
    for (const secret of [service.key, service.dataDir, '    at ', 'node_modules'])
      expect(text.includes(secret), what).toBe(false)
  }

  const marks: Awaited<ReturnType<typeof resources>>[] = []
  const markAt = [0.1, 0.5, 1].map((share) => Math.floor(COUNT * share))
  for (let i = 0; i < COUNT; i += 1) {
    // in waves: so the same seed asks the same in the same order
    if (COUNT > 10_000 && i % 2000 === 0) console.log(i, new Date().toISOString())
    if (i > 0 && i % RENEW_AFTER === 0) {
      await service.api.call('DELETE', `/v1/preview/models/${known['model_id']}`)
      known = await createOneOfEach(i)
    }
    const wave = Array.from({ length: Math.min(IN_FLIGHT, COUNT - i) }, (_, at) => ask(i + at))
    await Promise.all(wave)
    i += wave.length - 1
    if (i + 1 >= (markAt[marks.length] ?? Number.POSITIVE_INFINITY)) {
      marks.push(await resources())
      console.log(i + 1, JSON.stringify(marks.at(-1)))
    }
  }
  const dearest = [...cost].sort((a, b) => b[1] - a[1]).slice(0, 5)
  console.log(JSON.stringify({ seen: [...seen].sort(), seconds: dearest.map(([name, ms]) => [name, ms / 1000]) }))
  expect((await send({ method: 'GET', address: '/v1/health' }, true)).status).toBe(200)
  expect(service.child.exitCode).toBe(null)
  expect(seen.get(200) ?? 0, JSON.stringify([...seen])).toBeGreaterThan(COUNT / 20)
})
