/**
 * What children of a running service are given of its environment, as the system has it (`/proc/self/environ`): a module preloaded into
 * each of them writes it down, so that none is too short-lived to be seen.
 */
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noVulkan } from '../../support/reference/software-vulkan.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { startWorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

/** What servers are given, and users have in their shells. */
const SECRETS = {
  PGPASSWORD: 'of-the-database',
  PGPASSFILE: '/secret/pgpass',
  AWS_ACCESS_KEY_ID: 'of-the-bucket',
  AWS_SECRET_ACCESS_KEY: 'of-the-bucket',
  AWS_SESSION_TOKEN: 'of-the-bucket',
  RAY_AUTH_TOKEN: 'of-the-cluster',
  HF_TOKEN: 'of-the-hub',
  WANDB_API_KEY: 'of-wandb',
  OPENAI_API_KEY: 'of-a-teacher',
  TRAINYARD_API_KEY: 'of-this-service',
  TRAINYARD_TEACHER_KEY: 'of-a-teacher',
}

const isLinux = process.platform === 'linux'
let folder: string
let told: string
let environment: Record<string, string | undefined>
let service: TestService
let model: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-environment-'))
  told = join(folder, 'told.jsonl')
  const teller = join(folder, 'teller.cjs')
  await writeFile(told, '')
  await writeFile(
    teller,
    `const { appendFileSync, readFileSync } = require('node:fs')
     if (require('node:worker_threads').isMainThread) {
       const variables = readFileSync('/proc/self/environ', 'utf8').split('\\0').filter(Boolean)
       appendFileSync(${JSON.stringify(told)}, JSON.stringify({ program: process.argv[1], variables }) + '\\n')
     }`,
  )
  environment = { ...noVulkan(), ...SECRETS, OMP_NUM_THREADS: '1', NODE_OPTIONS: `--require ${teller}` }
  service = await createTestService({ scripted: false, threads: 1, seams: { environment } })
  model = await service.createModel('m')
}, 120_000)
afterAll(async () => {
  await service?.dispose()
  await rm(folder, { recursive: true, force: true })
})

/** Variables of the first process of that program, once there was one. */
async function variablesOf(program: string): Promise<Record<string, string>> {
  const found = await until(() => {
    const lines = readFileSync(told, 'utf8').split('\n').slice(0, -1)
    const all = lines.map((line) => JSON.parse(line) as { program: string; variables: string[] })
    return all.find((each) => each.program.endsWith(program))
  }, `a process of ${program}`)
  return Object.fromEntries(
    found.variables.map((each) => [each.split('=')[0] ?? '', each.slice(each.indexOf('=') + 1)]),
  )
}

function expectNoSecret(variables: Record<string, string>): void {
  expect(Object.keys(variables).filter((name) => name in SECRETS)).toEqual([])
  expect(Object.values(variables).filter((value) => /^of-|secret/.test(value))).toEqual([])
}

let jobs = 0

/** On rows of their own: the same once more would soon be the same job. */
async function train(query = ''): Promise<{ status: number; body: { id: string } }> {
  jobs += 1
  const messages = [
    { role: 'user', content: `Hi ${jobs}` },
    { role: 'assistant', content: 'Hello' },
  ]
  const file = await service.json<{ id: string }>('/v1/files?filename=rows.jsonl', {
    method: 'POST',
    body: `${JSON.stringify({ messages })}\n`,
  })
  const json = { model_id: model, training_data_url: file.body.id }
  return service.json(`/v1/preview/sft-training-jobs${query}`, { json })
}

describe.skipIf(!isLinux)('a child is given what it uses, and no secret of the service', () => {
  it('engine host', async () => {
    const json = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 }
    expect((await service.json('/v1/chat/completions', { json })).status).toBe(200)
    const variables = await variablesOf('inference/host/main.js')
    expectNoSecret(variables)
    expect(variables).toMatchObject({ PATH: process.env['PATH'], OMP_NUM_THREADS: '1' })
    expect(Object.keys(variables).filter((name) => name.startsWith('TRAINYARD_'))).toEqual([])
  })

  it('planner', async () => {
    expect((await train('?plan=true')).status).toBe(200)
    const variables = await variablesOf('training/worker/plan/main.js')
    expectNoSecret(variables)
    expect(variables).toMatchObject({ TRAINYARD_THREADS: '1', TRAINYARD_TRAINER: 'onnx' })
  })

  it('training worker, which has the token of its attempt', async () => {
    const { body } = await train()
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed' })
    const variables = await variablesOf('training/worker/main.js')
    expectNoSecret(variables)
    expect(variables).toMatchObject({
      TRAINYARD_WORKER_JOB: body.id,
      TRAINYARD_WORKER_TOKEN: expect.stringMatching(/./),
    })
  })

  it('exporter', async () => {
    const { status } = await service.json(`/v1/preview/models/${model}/checkpoints/1/files?format=gguf`)
    expect(status).toBe(200)
    expectNoSecret(await variablesOf('plugins/export/main.js'))
  })

  it('PyTorch, which has no token of its worker either', async () => {
    const python = join(folder, 'python')
    const file = join(folder, 'python.environ')
    await writeFile(python, `#!/bin/sh\ntr '\\0' '\\n' < /proc/self/environ > ${file}\nexit 1\n`)
    await chmod(python, 0o755)
    service = await service.restart({ trainer: 'torch', python, trainWorkers: 1, seams: { environment } })
    const { body } = await train()
    expect(await service.waitForJob(body.id)).toMatchObject({ status: 'failed', error_code: 'trainer_unavailable' })
    const names = readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => line.split('=')[0] ?? '')
    expect(names).toContain('PYTHONPATH')
    expect(names.filter((name) => name in SECRETS || name.startsWith('TRAINYARD_'))).toEqual([])
  })

  it('the trial of a device', async () => {
    await service.close(1000)
    await expect(
      createTestService({ scripted: false, device: 'webgpu', precision: 'f32', seams: { environment } }),
    ).rejects.toMatchObject({ code: 'device_refused' })
    expectNoSecret(await variablesOf('devices/main.js'))
  })

  it('training worker of another machine, which has no key', async () => {
    service = await service.restart({ trainer: 'onnx', trainWorkers: 0, seams: { environment } })
    const { NODE_OPTIONS = '' } = environment
    await writeFile(told, '')
    const worker = startWorkerProcess({
      url: service.url,
      key: service.apiKey,
      directory: folder,
      environment: { ...SECRETS, TRAINYARD_API_KEY: service.apiKey, NODE_OPTIONS },
    })
    try {
      const { body } = await train()
      expect(await service.waitForJob(body.id)).toMatchObject({ status: 'completed' })
      const variables = await variablesOf('training/worker/main.js')
      expectNoSecret(variables)
      expect(Object.values(variables)).not.toContain(service.apiKey)
    } finally {
      worker.child.kill('SIGKILL')
    }
  })
})
