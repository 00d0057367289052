/**
 * What is told about training: job metrics in a scrape, dashboards whose queries name what a server says, and what
 * TensorBoard's own reader and MLflow's own server make of what is sent to them. The tiny model, a real training worker.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseCardLoads } from '#base/processes/graphics-cards.js'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { unassignedPorts } from '../../support/service/unassigned-port.js'
import { until } from '../../support/until.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const BIN = path.join(ROOT, '.cache/trackers-venv/bin')
const NO_TRACKERS = 'no MLflow and TensorBoard in .cache/trackers-venv: .ci/run installs them'
const hasTrackers = existsSync(path.join(BIN, 'mlflow')) && existsSync(path.join(BIN, 'tensorboard'))
const hasPromtool = spawnSync('promtool', ['--version']).status === 0

const folder = mkdtempSync(path.join(tmpdir(), 'trainyard-trackers-'))
const events = path.join(folder, 'events')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function trainOnce(service: TestService, modelId: string): Promise<TrainingJob> {
  const { body } = await service.json<TrainingJob>('/v1/preview/training-jobs', {
    json: {
      model_id: modelId,
      trajectory_groups: [sampleGroup([1, 0, 0.5])],
      experimental_config: { learning_rate: 0.01 },
    },
  })
  const job = await service.waitForJob(body.id)
  expect(job.status).toBe('completed')
  return job
}

/** What the service itself says of gradient steps, by name. */
async function gradientSteps(service: TestService, jobs: readonly TrainingJob[]): Promise<Record<string, number>[]> {
  const all = await Promise.all(jobs.map(({ id }) => service.allEvents(id)))
  return all
    .flat()
    .filter(({ type }) => type === 'gradient_step')
    .map(({ data }) => data as Record<string, number>)
}

describe('a service that is asked for it', () => {
  let service: TestService
  let modelId: string
  let jobs: TrainingJob[]
  const settings = { scripted: false, threads: 1, jobMetrics: true, report: [`tensorboard=${events}`] }
  beforeAll(async () => {
    service = await createTestService(settings)
    modelId = await service.createModel('first model')
    jobs = [await trainOnce(service, modelId), await trainOnce(service, modelId)]
  })
  afterAll(() => service.dispose())

  it('says in a scrape what the last gradient step of a model measured', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text()
    const last = (await gradientSteps(service, jobs)).at(-1) ?? {}
    for (const [name, key] of [
      ['loss', 'loss'],
      ['reward', 'reward'],
      ['kl', 'kl_div'],
      ['tokens_per_second', 'tokens_per_second'],
    ] as const) {
      const line = text.split('\n').find((each) => each.startsWith(`trainyard_model_${name}{`)) ?? ''
      expect(line).toContain('model="first model",base_model="trainyard/tiny-random",kind="rl"')
      expect(Number(line.split(' ').at(-1)), name).toBeCloseTo(last[key] ?? Number.NaN, 6)
    }
    expect(text).toMatch(/^trainyard_model_training\{.*\} 0$/m)
    expect(text).toMatch(/^trainyard_training_longest_wait_seconds 0$/m)
  })

  it('writes files in which TensorBoard finds each number once, also after a restart', async (context) => {
    if (!hasTrackers) return context.skip(NO_TRACKERS)
    const read = (): Record<string, [number, number][]> =>
      JSON.parse(
        execFileSync(path.join(BIN, 'python'), [path.join(import.meta.dirname, 'read_events.py'), events], {
          encoding: 'utf8',
        }),
      )
    const steps = await gradientSteps(service, jobs)
    const { body } = await service.json<ModelMetrics>(`/v1/preview/models/${modelId}/metrics`)
    const expected = {
      'gradient_step/loss': steps.map(({ loss }, i) => [i + 1, loss]),
      'train/reward': body.steps.flatMap((step, i) =>
        body.series['train/reward']?.[i] == null ? [] : [[step, body.series['train/reward'][i]]],
      ),
    }
    const found = await until(() => {
      const all = existsSync(events) ? read() : {}
      return Object.entries(expected).every(([key, points]) => all[key]?.length === points.length) ? all : null
    }, 'files with the numbers of both jobs')
    for (const [key, points] of Object.entries(expected)) {
      expect(points.length, key).toBeGreaterThan(1)
      expect(found[key]?.map(([step]) => step)).toEqual(points.map(([step]) => step))
      // a file holds float32
      for (const [i, point] of points.entries()) expect(found[key]?.[i]?.[1]).toBeCloseTo(point[1] ?? Number.NaN, 5)
    }
    service = await service.restart(settings)
    const third = await trainOnce(service, modelId)
    const total = (await gradientSteps(service, [...jobs, third])).length
    await until(() => (read()['gradient_step/loss']?.length ?? 0) >= total, 'the third job in files')
    expect(read()['gradient_step/loss']?.map(([step]) => step)).toEqual(Array.from({ length: total }, (_, i) => i + 1))
  })

  describe('dashboards', () => {
    const boards = path.join(ROOT, 'src/deploy/grafana')
    const queries = readdirSync(boards).flatMap((file) => {
      const { panels } = JSON.parse(readFileSync(path.join(boards, file), 'utf8')) as {
        panels: { targets: { expr: string }[] }[]
      }
      return panels.flatMap(({ targets }) => targets.map(({ expr }) => ({ file, expr })))
    })

    it('are three, and ask for nothing that a server does not say', async () => {
      expect(readdirSync(boards)).toHaveLength(3)
      await service.fetch('/v1/chat/completions', {
        json: { model: 'first model', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 },
      })
      const text = await (await fetch(`${service.url}/metrics`)).text()
      const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
      expect(queries.length).toBeGreaterThan(30)
      for (const { file, expr } of queries) {
        const names = expr.match(/\b(?:vllm:|trainyard_|http_|process_|nodejs_)\w+/g) ?? []
        expect(names.length, expr).toBeGreaterThan(0)
        for (const name of names) expect([...known], `${file}: ${expr}`).toContain(name.replace(/_bucket$/, ''))
      }
    })

    it('ask in Prometheus’ words', (context) => {
      if (!hasPromtool) return context.skip('promtool is not installed (Debian: prometheus)')
      const rules = queries.map(({ expr }, i) => ({
        record: `query:${i}`,
        // what Grafana puts in
        expr: expr.replaceAll('$__rate_interval', '1m').replaceAll('$job', '.*'),
      }))
      const file = path.join(folder, 'rules.yml')
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboards', rules }] }))
      const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' })
      expect(status, stdout + stderr).toBe(0)
      expect(stdout).toContain(`SUCCESS: ${queries.length} rules found`)
    })
  })
})

it('names no model in a scrape that nobody asked to', async () => {
  const service = await createTestService()
  await service.createModel('secret-project')
  const text = await (await fetch(`${service.url}/metrics`)).text()
  await service.dispose()
  expect(text).not.toMatch(/secret-project|trainyard_model_|trainyard_card_/)
})

it('counts waits by priority', async () => {
  const service = await createTestService({ schedulingPolicy: 'priority' })
  for (const priority of [-3, 0, 2, 9]) {
    await service.fetch('/v1/chat/completions', {
      json: { priority, messages: [{ role: 'user', content: 'a' }], max_tokens: 2 },
    })
  }
  const text = await (await fetch(`${service.url}/metrics`)).text()
  await service.dispose()
  const counts = [...text.matchAll(/^trainyard_request_wait_seconds_count\{.*priority="(\w+)"\} (\d+)$/gm)]
  expect(Object.fromEntries(counts.map(([, name, count]) => [name, Number(count)]))).toEqual({
    first: 1,
    normal: 1,
    last: 2,
  })
})

it('refuses a tracker that nobody knows', async () => {
  await expect(createTestService({ report: ['tensorbord=x'] })).rejects.toMatchObject({
    code: 'invalid_setting',
    message: '--report "tensorbord=x" names no tracker',
    hint: expect.stringContaining('tensorboard=DIR'),
  })
})

it('reads cards as nvidia-smi lists them, without those that say only a part', () => {
  const text = '0, NVIDIA H200, 1234, 143771, 37\n1, NVIDIA T400, [N/A], 2048, 0\n\n'
  expect(parseCardLoads(text)).toEqual([
    { index: '0', name: 'NVIDIA H200', usedBytes: 1234 * 2 ** 20, memoryBytes: 143771 * 2 ** 20, utilization: 0.37 },
  ])
})

describe('MLflow', () => {
  it('has each number once, although it was away and the server was restarted', {
    timeout: 600_000,
  }, async (context) => {
    if (!hasTrackers) return context.skip(NO_TRACKERS)
    const [port = 0] = await unassignedPorts(1)
    const url = `http://127.0.0.1:${port}`
    const report = [`mlflow=${url}`]
    let service = await createTestService({ report })
    const modelId = await service.createModel('m')
    // nobody listens yet: nothing of it may be lost
    await trainOnce(service, modelId)
    const store = [
      '--backend-store-uri',
      `sqlite:///${folder}/mlflow.sqlite`,
      '--artifacts-destination',
      `${folder}/artifacts`,
    ]
    const args = ['server', ...store, '--host', '127.0.0.1', '--port', String(port), '--workers', '1']
    // its own jobs are no part of what is tested, and take a core each
    const env = { ...process.env, MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false' }
    const server = spawn(path.join(BIN, 'mlflow'), args, { cwd: folder, stdio: 'ignore', detached: true, env })
    try {
      const ask = async (way: string, json?: object): Promise<Record<string, unknown> | null> => {
        const body =
          json === undefined
            ? {}
            : { method: 'POST', body: JSON.stringify(json), headers: { 'content-type': 'application/json' } }
        const answer = await fetch(`${url}/api/2.0/mlflow/${way}`, body).catch(() => null)
        return answer?.ok === true ? ((await answer.json()) as Record<string, unknown>) : null
      }
      type Found = { runs?: { info: { run_id: string; run_name: string; status: string } }[] } | null
      const runs = async () => {
        const found = (await ask('experiments/search?max_results=10')) as {
          experiments?: { experiment_id: string }[]
        } | null
        const ids = found?.experiments?.map((each) => each.experiment_id) ?? []
        return ((await ask('runs/search', { experiment_ids: ids })) as Found)?.runs ?? []
      }
      const history = async (key: string) => {
        const [run] = await runs()
        const found = await ask(`metrics/get-history?run_id=${run?.info.run_id}&metric_key=${encodeURIComponent(key)}`)
        return ((found?.['metrics'] ?? []) as { step: number; value: number }[]).map(({ step, value }) => [step, value])
      }
      const whole = [
        [1, 1],
        [2, 1 / 2],
        [3, 1 / 3],
      ]
      const isWhole = async () =>
        (await history('gradient_step/loss')).length === 3 && (await runs())[0]?.info.status === 'FINISHED'
      // MLflow takes minutes to start where it has no core to itself
      await until(isWhole, 'what was measured before MLflow was there', 280_000)
      expect(await history('gradient_step/loss')).toEqual(whole)
      expect(await history('train/reward')).toEqual([[1, 0.25]])
      service = await service.restart({ report } as Parameters<typeof service.restart>[0])
      await trainOnce(service, modelId)
      await until(async () => (await history('gradient_step/loss')).length >= 6, 'the second job at MLflow')
      expect((await history('gradient_step/loss')).map(([step]) => step)).toEqual([1, 2, 3, 4, 5, 6])
      expect((await runs()).map(({ info }) => info.run_name)).toEqual(['m'])
    } finally {
      await service.dispose()
      process.kill(-(server.pid ?? 0), 'SIGTERM')
      await once(server, 'exit')
    }
  })
})
