/**
 * Training speed and memory on the shape of SmolLM2-135M, against the matrix roof of the same run.
 *
 * LoRA rank 8 on all seven projections, 4 rows of 256 tokens, every token trained. Useful work is 4 floating-point operations
 * per parameter and token: the forward product and the gradient through frozen weights. Parameters are those of the layers'
 * projections, for all tokens, and of the head, for trained tokens; the embedding lookup, attention's own products, adapters
 * and norms are not counted. The roof is a chain of float32 products [1024, 1536] x [1536, 1536] in ONNX Runtime. Weights are random: speed does not
 * depend on them. The work runs in a process of its own, with the memory pages that training workers have, so that its peak memory is
 * its own.
 *
 *     npm run bench -- train
 *     npm run bench -- train --against .cache/torch/bin/python [--rounds 2]     in turns with PyTorch and PEFT (`pip install torch peft`)
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { lastLine } from './support/last-line.js'
import { measureRoof } from './support/matrix-roof.js'
import { median } from './support/median.js'
import { prepareRandom } from './support/random-model.js'

export const title = 'Training, SmolLM2-135M shape, LoRA rank 8, B = 4 x 256'

const CONFIG = JSON.parse(readFileSync(path.join(import.meta.dirname, '../support/model/smollm2-135m.json'), 'utf8'))
const STEPS = Number(process.env.TRAINYARD_BENCH_STEPS ?? 3)
/** On a busy machine: one thread and processor time instead of wall-clock time, so that ratios still mean something. */
const isBusy = process.env.TRAINYARD_BENCH_BUSY === '1'
const threads = isBusy ? { threads: 1 } : {}

/** Milliseconds, for differences. */
function now() {
  if (!isBusy) return performance.now()
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export async function run({ against, rounds = '2' }, print) {
  if (against !== undefined) return runAgainst(path.resolve(against), Number(rounds), print)
  const m = await measureApart(4, 256, STEPS)
  const recomputed = await measureApart(4, 256, STEPS, 0, 1)
  const integers = await measureApart(4, 256, STEPS, 1)
  const long = await measureApart(1, 2048, 1)
  const longest = await measureApart(1, 8192, 1)
  return [
    { name: 'matrix roof, float32', value: m.roof / 1e9, unit: 'GFLOP/s' },
    { name: 'useful work', value: m.useful / 1e9, unit: 'GFLOP/s', ratio: m.useful / m.roof, target: '>= 0.75' },
    { name: 'training', value: m.tokensPerSecond, unit: 'tokens/s' },
    { name: 'session from graph to ready', value: m.loadMs / 1000, unit: 's' },
    { name: 'peak resident memory', value: m.peakBytes / 1e9, unit: 'GB', target: '<= 2.0' },
    {
      name: 'training, layers recomputed',
      value: recomputed.tokensPerSecond,
      unit: 'tokens/s',
      ratio: m.tokensPerSecond / recomputed.tokensPerSecond,
      target: '<= 1.35 times the time',
    },
    { name: 'its peak resident memory', value: recomputed.peakBytes / 1e9, unit: 'GB', target: '<= 1.2' },
    {
      name: 'training, precision int8',
      value: integers.tokensPerSecond,
      unit: 'tokens/s',
      ratio: integers.tokensPerSecond / m.tokensPerSecond,
    },
    { name: 'its peak resident memory', value: integers.peakBytes / 1e9, unit: 'GB' },
    { name: 'one row of 2048 tokens, layers recomputed', value: long.tokensPerSecond, unit: 'tokens/s' },
    { name: 'its peak resident memory', value: long.peakBytes / 1e9, unit: 'GB', target: '< 4' },
    { name: 'one row of 8192 tokens, layers recomputed', value: longest.tokensPerSecond, unit: 'tokens/s' },
    { name: 'its peak resident memory', value: longest.peakBytes / 1e9, unit: 'GB', target: '< 8' },
  ]
}

/** Ours and PyTorch's by turns, each in a process of its own; ratios of medians, and against the peer's best step. */
async function runAgainst(python, rounds, print) {
  const peer = path.join(import.meta.dirname, 'peers/pytorch-train.py')
  for (const [precision, dtype] of [
    ['float32', 'f32'],
    ['int8', 'bf16'],
  ]) {
    const ours = []
    const theirs = []
    for (let round = 0; round < rounds; round++) {
      ours.push(await measureApart(4, 256, STEPS, precision === 'int8' ? 1 : 0))
      theirs.push(await lastLine(python, [peer, 4, 256, STEPS, dtype, threads.threads ?? os.availableParallelism()]))
    }
    const speed = median(ours.map(({ tokensPerSecond }) => tokensPerSecond))
    const best = Math.max(...theirs.map((found) => found.best))
    print({ name: `training, ${precision}`, value: speed, unit: 'tokens/s', ratio: speed / best })
    print({ name: '  share of the roof', value: median(ours.map(({ useful, roof }) => useful / roof)), unit: '' })
    print({ name: '  peak resident memory', value: Math.max(...ours.map((m) => m.peakBytes)) / 1e9, unit: 'GB' })
    print({ name: `PyTorch ${theirs[0].torch}, ${dtype}, its best step`, value: best, unit: 'tokens/s' })
    print({ name: '  mean of its steps', value: median(theirs.map(({ mean }) => mean)), unit: 'tokens/s' })
    print({ name: '  peak resident memory', value: Math.max(...theirs.map((m) => m.peakBytes)) / 1e9, unit: 'GB' })
  }
  return []
}

function measureApart(...numbers) {
  return lastLine(process.execPath, [import.meta.filename, '--measure', ...numbers])
}

/** @param recomputed 1 and 0 for layers computed again or kept, -1 as a job would decide */
async function measure(rowCount, length, steps, hasIntegers = 0, recomputed = -1) {
  const load = (name) => import(new URL(`../../dist/src/${name}.js`, import.meta.url))
  const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
  const { toRowBatch, sequenceRow, perToken } = await load('training/trainer/row-batch')
  const { createTrainer } = await load('training/trainer/trainer')
  const { openLearner, startingPoint } = await load('training/trainer/job')
  const { SFT_OPTIMIZER } = await load('training/trainer/optimizer-settings')
  const { needsRecomputation } = await load('training/trainer/memory')
  const { createRng } = await load('base/util/rng')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const runtime = createOrtRuntime()
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-train-'))
  try {
    const prepared = await prepareRandom(load, directory, CONFIG)
    const roofBefore = await measureRoof(load, { runtime, directory, threads, now })
    const profilePrefix = process.env.TRAINYARD_BENCH_PROFILE
    const profiled = {
      ...runtime,
      loadSession: (model, options) => runtime.loadSession(model, { ...options, profilePrefix }),
    }
    const context = {
      ...threads,
      runtime: profilePrefix === undefined ? runtime : profiled,
      prepared,
      jobId: 'bench',
      ...startingPoint(prepared, null, { kind: 'sft', lora: null, seed: 1 }),
    }
    const precision = hasIntegers === 1 ? 'int8' : 'f32'
    const started = now()
    const isRecomputed = recomputed === -1 ? needsRecomputation(CONFIG, { rows: rowCount, length }) : recomputed === 1
    const loss = { kind: 'cross_entropy' }
    const learner = await openLearner(context, { precision, rows: { longestRow: length, isRecomputed } })
    const trainer = await createTrainer({ learner, loss, settings: SFT_OPTIMIZER })
    const loadMs = now() - started
    const rng = createRng('bench')
    const rows = Array.from({ length: rowCount }, () =>
      sequenceRow(
        Int32Array.from({ length }, () => rng.integer(CONFIG.vocabularySize)),
        new Uint8Array(length).fill(1),
      ),
    )
    const batch = toRowBatch(rows)
    const lossInputs = {
      denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
      weight: perToken(batch, () => 1),
    }
    const times = []
    for (let step = 0; step <= steps; step++) {
      const begun = now()
      await trainer.step([{ batch, lossInputs }], { learningRate: 1e-4 })
      if (step > 0) times.push(now() - begun)
    }
    await learner.release()
    const roofAfter = await measureRoof(load, { runtime, directory, threads, now })
    // The best of the steps, as for the roof: what another program took from this one says nothing about either.
    const seconds = Math.min(...times) / 1000
    const {
      hiddenSize: e,
      mlpSize: f,
      layerCount: l,
      headCount: h,
      kvHeadCount: k,
      headSize: d,
      vocabularySize: v,
    } = CONFIG
    const layers = l * (e * (h + 2 * k) * d + e * h * d + 3 * e * f)
    const flops = 4 * (layers * rowCount * length + v * e * batch.trained.length)
    console.log(
      JSON.stringify({
        roof: Math.max(roofBefore, roofAfter),
        useful: flops / seconds,
        tokensPerSecond: (rowCount * length) / seconds,
        isRecomputed,
        loadMs,
        peakBytes: process.resourceUsage().maxRSS * 1024,
      }),
    )
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

if (process.argv[2] === '--measure') await measure(...process.argv.slice(3).map(Number))
