/**
 * What a machine with a graphics card must check, in one command: whether each device computes right, where its nodes run, and how fast
 * it decodes, reads prompts and trains against the CPU beside it, on random weights of SmolLM2-135M's shape.
 *
 *     npm run bench -- device                      every device that can be had
 *     npm run bench -- device --devices webgpu     one of them
 *     npm run bench -- device --shape small        a small model, for software Vulkan: figures say nothing there
 *
 * Each measurement runs in a process of its own, whose death is told and ends nothing else. Bytes beside a decoding step are its keys and
 * values: WebGPU has a copy of them, to CUDA they cross at each step.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { lastLine } from './support/last-line.js'
import { prepareRandom } from './support/random-model.js'

export const title = 'Devices: right, placed, fast'

const SHAPES = {
  large: JSON.parse(readFileSync(path.join(import.meta.dirname, '../support/model/smollm2-135m.json'), 'utf8')),
}
SHAPES.small = {
  ...SHAPES.large,
  layerCount: 2,
  hiddenSize: 64,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  mlpSize: 128,
  vocabularySize: 300,
}
const WORK = {
  large: {
    streams: [1, 8, 64],
    prompt: 512,
    steps: 16,
    rows: [
      [4, 256],
      [1, 2048],
    ],
  },
  small: { streams: [1, 4], prompt: 32, steps: 3, rows: [[2, 32]] },
}
const load = (name) => import(new URL(`../../dist/src/${name}.js`, import.meta.url))

export async function run({ devices, shape = 'large' }, print) {
  const { placementOf, speedupOf } = await load('contract/processes/device-proof')
  const { proveDevice } = await load('plugins/devices/prove-device')
  const proven = []
  for (const device of devices === undefined ? ['webgpu', 'cuda'] : devices.split(',')) {
    const proof = await proveDevice(device, process.env)
    if (!proof.isTrusted) {
      console.log(`  ${device} refused: ${proof.problem}`)
      continue
    }
    proven.push(device)
    for (const { graph, error } of proof.graphs)
      print({ name: `${device}: error of the ${graph} graph`, value: error, unit: '', target: '< 1e-3' })
    const { onCpu, all } = placementOf(proof)
    print({ name: `${device}: nodes on the CPU, of ${all}`, value: onCpu, unit: '' })
    print({ name: `${device}: times as fast as the CPU at the model of the trial`, value: speedupOf(proof), unit: '' })
  }
  if (proven.length === 0) return 'no device computes right here; `trainyard devices` says what is missing'
  const found = {}
  for (const device of ['cpu', ...proven]) {
    try {
      found[device] = await lastLine(process.execPath, [import.meta.filename, '--measure', device, shape])
    } catch (error) {
      console.log(`  ${device} ended while it was measured: ${error.message}`)
    }
  }
  for (const [device, values] of Object.entries(found)) {
    for (const [name, { value, unit }] of Object.entries(values)) {
      const base = found.cpu?.[name]?.value
      print({ name: `${device}: ${name}`, value, unit, ...(device === 'cpu' || !base ? {} : { ratio: value / base }) })
    }
  }
  return []
}

async function measure(device, shape) {
  const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
  const config = SHAPES[shape]
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-device-'))
  try {
    const prepared = await prepareRandom(load, directory, config, true)
    const runtime = createOrtRuntime({ device })
    const values = {
      ...(await measureSteps(runtime, prepared, WORK[shape])),
      ...(await measureTraining(runtime, prepared, WORK[shape])),
    }
    console.log(JSON.stringify(values))
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

async function measureSteps(runtime, prepared, { streams, prompt, steps }) {
  const { loadOnnxRunner } = await load('inference/engine/runner/onnx-runner')
  const options = { runtime, prepared, precision: 'f32', threads: null, contextLength: 4096, kvBytes: 2e9 }
  const startedMs = performance.now()
  const runner = await loadOnnxRunner(options)
  const values = { 'step graph, from graph to ready': { value: (performance.now() - startedMs) / 1000, unit: 's' } }
  const ids = Array.from({ length: prompt }, (_, at) => (at * 7 + 3) % 250)
  const read = async () => {
    const sequence = runner.createSequence(prompt)
    const rows = await runner.prefill([{ sequence, ids, adapter: null, rows: 'last' }])
    rows.keep(0, prompt)
    return sequence
  }
  // what a shape costs the first time is the driver's compiler
  const coldMs = await timed(read)
  values[`first prompt of ${prompt} tokens`] = { value: coldMs / 1000, unit: 's' }
  values[`prompt of ${prompt} tokens`] = { value: prompt / ((await timed(read)) / 1000), unit: 'tokens/s' }
  for (const count of streams) {
    const sequence = await read()
    const slots = Array.from({ length: count }, () =>
      runner.allocate(sequence, { tail: null, siblings: count, choices: count }),
    )
    const step = async () => {
      const parts = slots.map((slot) => ({ slot, ids: [5], adapter: null, inverseTemperature: 1 }))
      const rows = await runner.decode(parts, ['probabilities', 'logprobs'])
      for (const at of parts.keys()) rows.keep(at, 1)
    }
    await step()
    let totalMs = 0
    for (let at = 0; at < steps; at++) totalMs += await timed(step)
    values[`decode, ${count} streams`] = { value: (count * steps) / (totalMs / 1000), unit: 'tokens/s' }
    const cached = runner.bytesPerToken * prompt + runner.slotBytes
    values[`decode, ${count} streams: keys and values beside a step`] = { value: cached / 1e6, unit: 'MB' }
    for (const slot of slots) runner.free(slot)
    runner.compact(() => false)
  }
  await runner.release()
  return values
}

async function measureTraining(runtime, prepared, { rows: shapes }) {
  const { toRowBatch, sequenceRow, perToken } = await load('training/trainer/row-batch')
  const { createTrainer } = await load('training/trainer/trainer')
  const { openLearner, startingPoint } = await load('training/trainer/job')
  const { SFT_OPTIMIZER } = await load('training/trainer/optimizer-settings')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const values = {}
  for (const [count, length] of shapes) {
    const start = startingPoint(prepared, null, { kind: 'sft', lora: null, seed: 1 })
    const context = { runtime, prepared, jobId: 'bench', ...start }
    const ahead = { longestRow: length, isRecomputed: length > 1024 }
    const learner = await openLearner(context, { precision: 'f32', rows: ahead })
    const loss = { kind: 'cross_entropy' }
    const trainer = await createTrainer({ learner, loss, settings: SFT_OPTIMIZER })
    const row = (seed) =>
      sequenceRow(
        Int32Array.from({ length }, (_, at) => (at * 31 + seed) % 250),
        new Uint8Array(length).fill(1),
      )
    const batch = toRowBatch(Array.from({ length: count }, (_, seed) => row(seed)))
    const denominator = float32Tensor(Float32Array.of(batch.trained.length), [])
    const lossInputs = { denominator, weight: perToken(batch, () => 1) }
    const step = () => trainer.step([{ batch, lossInputs }], { learningRate: 1e-4 })
    await step()
    const bestMs = Math.min(await timed(step), await timed(step))
    values[`training, ${count} x ${length} tokens`] = { value: (count * length) / (bestMs / 1000), unit: 'tokens/s' }
    await learner.release()
  }
  return values
}

async function timed(work) {
  const startMs = performance.now()
  await work()
  return performance.now() - startMs
}

if (process.argv[2] === '--measure') await measure(process.argv[3], process.argv[4])
