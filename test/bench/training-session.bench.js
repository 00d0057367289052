/**
 * A step of a training loop through HTTP beside the same step in a job, and what a thousand of them leave in memory.
 *
 * The built-in model, LoRA rank 8, 16 rows of 64 tokens, every token trained, AdamW. The job's step is its trainer's alone, in a process of its
 * own, without events, resume points or a server. The loop's is all of it: rows as they are sent, the server, its database, the worker.
 * Steps are pipelined as the Tinker client does. Both run in turns; the least of each counts, in wall-clock and in processor time (the
 * loop's: worker, server and client together), for the machine may be busy.
 *
 *     npm run bench -- training-session [--rounds 3] [--steps 1000]
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { startService } from '../support/service/service-process.js'
import { lastLine } from './support/last-line.js'
import { median } from './support/median.js'
import { childrenOf } from './support/processes.js'

export const title = 'A step of a training loop, trainyard/spark, 16 rows of 64 tokens'

const MODEL = 'trainyard/spark'
const ROWS = 16
const LENGTH = 64
/** Steps of one measurement, after some that warm up. */
const STEPS = 20
const AHEAD = 4

const load = (name) => import(new URL(`../../dist/src/${name}.js`, import.meta.url))

export async function run({ rounds = '3', steps = '1000' }) {
  const { createClient, TrainableModel } = await import('../../dist/src/rl.js')
  const service = await startService({ args: ['--train-workers', '1'] })
  try {
    const client = createClient({ baseUrl: service.url, apiKey: service.key })
    const model = await new TrainableModel(client, { name: 'loop', baseModel: MODEL }).register()
    const open = () => model.session({ rank: 8, seed: 1, from: 'base' })
    const job = []
    const loop = []
    const session = await open()
    const rows = await randomRows(ROWS, LENGTH)
    await pipelined(session, () => rows, 4)
    const workerPid = childrenOf(service.child.pid).find((pid) => commandOf(pid).includes('training/worker'))
    const cpuMs = () => processorMs(service.child.pid) + processorMs(workerPid) + processorMs(process.pid)
    for (let round = 0; round < Number(rounds); round++) {
      job.push(await lastLine(process.execPath, [import.meta.filename, '--measure']))
      const [wallBefore, cpuBefore, workerBefore] = [performance.now(), cpuMs(), processorMs(workerPid)]
      await pipelined(session, () => rows, STEPS)
      loop.push({
        wall: (performance.now() - wallBefore) / STEPS,
        cpu: (cpuMs() - cpuBefore) / STEPS,
        worker: (processorMs(workerPid) - workerBefore) / STEPS,
      })
    }
    const least = (list, name) => Math.min(...list.map((each) => each[name]))
    const target = '<= 1.15'
    const result = [
      { name: 'a step in a job', value: least(job, 'wall'), unit: 'ms' },
      { name: '  its processor time', value: least(job, 'cpu'), unit: 'ms' },
      {
        name: 'a step of a loop',
        value: least(loop, 'wall'),
        unit: 'ms',
        ratio: least(loop, 'wall') / least(job, 'wall'),
        target,
      },
      {
        name: '  its processor time',
        value: least(loop, 'cpu'),
        unit: 'ms',
        ratio: least(loop, 'cpu') / least(job, 'cpu'),
        target,
      },
      { name: '  of which the worker', value: least(loop, 'worker'), unit: 'ms' },
    ]
    const memory = []
    await pipelined(session, changingRows(await randomRows(64, 16)), Number(steps), (step) => {
      if ((step + 1) % 10 === 0) memory.push([service.child.pid, workerPid].map((pid) => residentBytes(pid)))
    })
    await session.close()
    for (const [i, name] of ['server', 'worker'].entries()) {
      // what is not collected yet comes and goes: medians of a hundred steps each
      const [first, last] = [memory.slice(10, 20), memory.slice(-10)].map((part) => median(part.map((each) => each[i])))
      result.push({ name: `${name}, steps 101 to 200`, value: first / 1e6, unit: 'MB' })
      result.push({
        name: `  the last hundred of ${steps}`,
        value: last / 1e6,
        unit: 'MB',
        ratio: last / first,
        target: '<= 1.05',
      })
    }
    return result
  } finally {
    await service.stop()
  }
}

/** Eight of them, others at each step. */
function changingRows(rows) {
  return (step) => Array.from({ length: 8 }, (_, i) => rows[(step * 8 + i) % rows.length])
}

async function pipelined(session, rowsOf, steps, onStep = () => undefined) {
  const sent = []
  for (let step = 0; step < steps; step++) {
    while (sent.length < Math.min(steps, step + AHEAD)) {
      sent.push([
        session.forwardBackward(rowsOf(sent.length), 'cross_entropy'),
        session.optimStep({ learningRate: 1e-4 }),
      ])
    }
    await Promise.all(sent[step])
    sent[step] = null
    onStep(step)
  }
}

/** One token that is given, and so many that are trained. */
async function randomRows(count, length) {
  const { createRng } = await load('base/util/rng')
  const rng = createRng('bench')
  const ids = (size) => Array.from({ length: size }, () => 10 + rng.integer(4000))
  return Array.from({ length: count }, () => ({ prompt: ids(1), tokens: ids(length) }))
}

/** The same step in a job's trainer. */
async function measure() {
  const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
  const { prepareBaseModel } = await load('model/architectures/prepare')
  const { parameterCount } = await load('model/architectures/decoder-config')
  const { threadsFor } = await load('numerics/runtime/default-threads')
  const { labelledRow, toRowBatch, perToken } = await load('training/trainer/row-batch')
  const { createTrainer } = await load('training/trainer/trainer')
  const { openLearner, startingPoint } = await load('training/trainer/job')
  const { SFT_OPTIMIZER } = await load('training/trainer/optimizer-settings')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-session-'))
  try {
    const prepared = await prepareBaseModel(
      path.join(import.meta.dirname, '../../src/assets/spark'),
      path.join(directory, 'prepared'),
      ['f32'],
    )
    const threads = threadsFor(parameterCount(prepared.config), null)
    const context = {
      ...(threads === null ? {} : { threads }),
      runtime: createOrtRuntime(),
      prepared,
      jobId: 'bench',
      ...startingPoint(prepared, null, { kind: 'sft', lora: { rank: 8, alpha: 32 }, seed: 1 }),
    }
    const rows = { longestRow: LENGTH, isRecomputed: false }
    const learner = await openLearner(context, { precision: 'f32', rows })
    const loss = { kind: 'cross_entropy' }
    const trainer = await createTrainer({ learner, loss, settings: SFT_OPTIMIZER })
    const drawn = await randomRows(ROWS, LENGTH)
    const step = async () => {
      const labelled = drawn.map(({ prompt, tokens }) =>
        labelledRow(Int32Array.from([...prompt, ...tokens.slice(0, -1)]), Int32Array.from(tokens)),
      )
      const batch = toRowBatch(labelled)
      const lossInputs = {
        denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
        weight: perToken(batch, () => 1),
      }
      await trainer.step([{ batch, lossInputs }], { learningRate: 1e-4 })
    }
    for (let i = 0; i < 4; i++) await step()
    const [wall, cpu] = [performance.now(), process.cpuUsage()]
    for (let i = 0; i < STEPS; i++) await step()
    const { user, system } = process.cpuUsage(cpu)
    const per = (value) => value / STEPS
    console.log(JSON.stringify({ wall: per(performance.now() - wall), cpu: per((user + system) / 1000) }))
    await learner.release()
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

function commandOf(pid) {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
}

/** Clock ticks are 10 ms on every Linux. */
function processorMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

function residentBytes(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
}

if (process.argv[2] === '--measure') await measure()
