/**
 * Whole jobs by PyTorch: they end as by ONNX Runtime, keep their trainer when they lose their worker, and refuse by name what it cannot do.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { trainerVariables } from '#contract/processes/trainers.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { INSTALLED } from '#plugins/index.js'
import { TORCH_PACKAGES } from '#plugins/torch/torch-process.js'
import { createWorkerPool } from '#service/processes/worker-pool.js'
import { createTrainers } from '#training/trainer/trainers.js'
import { attempt, type Held, nothing, timeless, timelessReport } from '../../support/model/attempts.js'
import { NO_TORCH, TORCH_PYTHONS } from '../../support/torch-python.js'
import { until } from '../../support/until.js'

let directory: string
let modelPath: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-torch-jobs-'))
  modelPath = await ensureTinyRandomModel(join(directory, 'model'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
const places = () => ({ modelPath, preparedDir: join(directory, 'prepared') })

const rows = Array.from({ length: 8 }, (_, i) => ({
  messages: [
    { role: 'user', content: `What is ${i}?` },
    { role: 'assistant', content: `It is ${i * i}.` },
  ],
}))
const pairs = rows.map(({ messages: [question, answer] }) => ({
  prompt: [question],
  chosen: [answer],
  rejected: [{ role: 'assistant', content: 'I do not know.' }],
}))
const rng = createRng('torch jobs')
const ids = (length: number) => Array.from({ length }, () => 40 + rng.integer(60))
const groups = Array.from({ length: 6 }, (_, n) => {
  const prompt = ids(5)
  return {
    trajectories: [0, 1, 0.5].map((reward) => {
      const answer = ids(4 + n)
      const message = { role: 'assistant', content: 'x' }
      const logprobs = { content: answer.map((id) => ({ token: `token_id:${id}`, logprob: -5.5, top_logprobs: [] })) }
      const choice = { finish_reason: 'stop', index: 0, message, prompt_token_ids: prompt, token_ids: answer, logprobs }
      return { reward, messages_and_choices: [{ role: 'user', content: 'hi' }, choice] }
    }),
  }
})

/** [what it is, the job, its data] */
const JOBS: readonly [string, Partial<WorkerJob>, readonly unknown[]][] = [
  ['SFT', { kind: 'sft', config: { batch_size: 2, epochs: 2, learning_rate: 1e-3 } }, rows],
  ['DPO', { kind: 'dpo', config: { batch_size: 2, epochs: 2, learning_rate: 1e-3 } }, pairs],
  ['SimPO', { kind: 'dpo', config: { batch_size: 2, learning_rate: 1e-3, loss_type: 'simpo' } }, pairs],
  ['CISPO', { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 30 } }, groups],
  ['PPO', { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 30, ppo: true } }, groups],
  [
    'RL with a KL term',
    { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 30, kl_penalty_coef: 0.2 } },
    groups,
  ],
  [
    'RL in a trust region',
    { kind: 'rl', config: { learning_rate: 1e-2, tokens_per_step: 30, target_kl: 1e-3 } },
    groups,
  ],
]

const [python] = TORCH_PYTHONS
const modules = { torch: () => import('#plugins/torch/torch-backend.js') }
describe.runIf(python === undefined)('jobs by PyTorch', () => {
  it.skip(NO_TORCH, () => undefined)
})

describe.runIf(python !== undefined)('jobs by PyTorch', () => {
  const trainers = createTrainers({ modules, trainer: 'torch', python: python ?? '', environment: process.env })
  afterAll(() => trainers.stop())
  const byTorch = () => ({ ...places(), trainers })

  it.each(JOBS)('%s ends as by ONNX Runtime', async (_, job, input) => {
    const [onnx, torch] = [nothing(), nothing()]
    await attempt(onnx, job, { input, ...places() })
    await attempt(torch, job, { input, ...byTorch() })
    expect(torch.events.length).toBe(onnx.events.length)
    expect(worstOf(numbersOf(torch), numbersOf(onnx))).toBeLessThan(2e-3)
    const [onnxReport, torchReport] = [onnx, torch].map(({ completion }) => completion?.report)
    expect(onnxReport?.trainer).toMatchObject({ name: 'onnx', description: /ONNX Runtime|onnxruntime/ })
    expect(torchReport?.trainer).toMatchObject({
      name: 'torch',
      description: /^PyTorch .*, transformers .*, on the CPU$/,
    })
    expect({ ...torchReport, trained_tokens: 0 }).toMatchObject({ left_out: onnxReport?.left_out, trained_tokens: 0 })
  })

  it('goes on with its trainer when the server has another one by then, to the same bytes', async () => {
    const [, job, input] = JOBS[0] as (typeof JOBS)[number]
    const alone = nothing()
    await attempt(alone, job, { input, ...byTorch() })
    const held = nothing()
    expect(await attempt(held, job, { input, death: { step: 3, moment: 'point' }, ...byTorch() })).toBe(true)
    const other = createTrainers({ modules, trainer: 'onnx', python: python ?? '', environment: process.env })
    try {
      expect(await attempt(held, job, { input, ...places(), trainers: other })).toBe(false)
    } finally {
      await other.stop()
    }
    expect([...held.files]).toEqual([...alone.files])
    expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
    expect(timelessReport(held.completion)).toEqual(timelessReport(alone.completion))
  })

  it('goes on by ONNX Runtime what that began, although the server has PyTorch by then', async () => {
    const [, job, input] = JOBS[0] as (typeof JOBS)[number]
    const held = nothing()
    expect(await attempt(held, job, { input, death: { step: 3, moment: 'point' }, ...places() })).toBe(true)
    expect(await attempt(held, job, { input, ...byTorch() })).toBe(false)
    expect(held.completion?.report?.trainer?.name).toBe('onnx')
  })

  it('trains a bfloat16 base to nearly the same losses, and refuses int8 by name', async () => {
    const [, job, input] = JOBS[0] as (typeof JOBS)[number]
    const [exact, rounded] = [nothing(), nothing()]
    const as = (precision: string) => ({ ...job, config: { ...job.config, precision } })
    await attempt(exact, job, { input, ...byTorch() })
    await attempt(rounded, as('bf16'), { input, ...byTorch() })
    const losses = ({ events }: Held) => events.slice(1).map(({ data }) => data['loss'] ?? Number.NaN)
    expect(losses(rounded)).not.toEqual(losses(exact))
    const ratios = losses(rounded).map((loss, i) => Math.abs(loss / (losses(exact)[i] ?? 0) - 1))
    expect(Math.max(...ratios)).toBeLessThan(0.01)
    await expect(attempt(nothing(), as('int8'), { input, ...byTorch() })).rejects.toMatchObject({
      code: 'precision_unavailable',
      message: /int8/,
    })
    await expect(attempt(nothing(), as('bf16'), { input, ...places() })).rejects.toMatchObject({
      code: 'precision_unavailable',
      hint: /--trainer torch/,
    })
  })

  it('auto leaves a machine without a graphics card to ONNX Runtime, and keeps no process', async () => {
    const auto = createTrainers({
      modules,
      trainer: 'auto',
      python: python ?? '',
      environment: { ...process.env, CUDA_VISIBLE_DEVICES: '' },
    })
    expect(await auto.choose(null)).toBe(null)
    expect((await auto.choose('torch'))?.facts.name).toBe('torch')
    await auto.stop()
  })

  it.runIf(process.platform === 'linux')('ends with its parent, however that ends', async () => {
    const script = `import { startTorchProcess } from '#plugins/torch/torch-process.js'
      await startTorchProcess({ python: ${JSON.stringify(python)}, environment: process.env })
      const { readFileSync } = await import('node:fs')
      console.log(readFileSync('/proc/self/task/' + process.pid + '/children', 'utf8'))
      setInterval(() => undefined, 1000)`
    const parent = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: join(import.meta.dirname, '../../..'),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(said.toString().trim())
    expect(isAlive(pid)).toBe(true)
    parent.kill('SIGKILL')
    await until(() => !isAlive(pid), 'the Python process ends')
  })
})

describe('the probe of a worker', () => {
  const probed = (trainer: string, interpreter: string) => {
    const rows = INSTALLED.plugins.flatMap(({ trainers = [] }) => trainers)
    const given = { TRAINYARD_TRAINER: trainer, TRAINYARD_PYTHON: interpreter, ...trainerVariables(rows) }
    const pool = createWorkerPool({ environment: process.env, given, keepMs: 0 })
    return pool.probe().finally(() => pool.stop())
  }

  it.runIf(python !== undefined)('says how PyTorch agrees with ONNX Runtime, where it is to train', async () => {
    expect(await probed('torch', python ?? '')).toMatch(
      /PyTorch .*: a gradient differs from ONNX Runtime's by \d\.\de-\d of/,
    )
  })

  it('fails with the line that installs it where it is missing, and asks for nothing where ONNX Runtime trains', async () => {
    await expect(probed('torch', 'no-such-python')).rejects.toThrow(/no-such-python -m pip install torch/)
    expect(await probed('onnx', 'no-such-python')).toBe('a worker was started and loaded its runtime')
  })
})

describe('without PyTorch', () => {
  const [, job, input] = JOBS[0] as (typeof JOBS)[number]
  const fail = (interpreter: string) =>
    attempt(nothing(), job, {
      input,
      ...places(),
      trainers: createTrainers({
        modules,
        trainer: 'torch',
        python: interpreter,
        environment: { PATH: process.env['PATH'] },
      }),
    })

  it('a job says that the interpreter cannot be started, and how one is made', async () => {
    await expect(fail('no-such-python')).rejects.toMatchObject({
      code: 'trainer_unavailable',
      message: /no-such-python could not be started/,
      hint: expect.stringContaining(`no-such-python -m pip install ${TORCH_PACKAGES}`),
    })
  })

  it('a job says which package is missing', async () => {
    const bare = join(directory, 'bare')
    const made = spawn('python3', ['-m', 'venv', '--without-pip', bare], { stdio: 'ignore' })
    const [code] = (await once(made, 'exit')) as [number]
    expect(code).toBe(0)
    await expect(fail(join(bare, 'bin', 'python'))).rejects.toMatchObject({
      code: 'trainer_unavailable',
      message: /missing package: numpy/,
    })
  })

  it('auto trains by ONNX Runtime', async () => {
    const auto = createTrainers({ modules, trainer: 'auto', python: 'no-such-python', environment: {} })
    expect(await auto.choose(null)).toBe(null)
  })
})

/** What a job's steps and its checkpoint's metrics say, without times. */
function numbersOf({ events, completion }: Held): readonly number[] {
  const metrics = { type: 'metrics', data: completion?.metrics ?? {} }
  return [...events, metrics].flatMap(({ data }) =>
    Object.entries(data)
      .filter(([name]) => !/seconds|per_second|time/.test(name))
      .map(([, value]) => value),
  )
}

/** Largest difference, relative where numbers are large. */
function worstOf(actual: readonly number[], expected: readonly number[]): number {
  expect(actual.length).toBe(expected.length)
  return Math.max(
    ...expected.map((value, i) => Math.abs(value - (actual[i] ?? Number.NaN)) / Math.max(1, Math.abs(value))),
  )
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
