/**
 * Trains all weights: `node test/spark/train.js [--tokens 24000000] [--decay-steps 1200] [--run DIR] [--fresh]`.
 *
 * Needs the tokenizer and the mixture. Goes on from `state.safetensors` of the run directory if it is there, bit by bit as if
 * it had never stopped. Writes there `log.jsonl`, the state, and `best/`: a Hugging Face directory of the weights with the
 * lowest held-out loss (mean over sources of the loss per trained token).
 */
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parameterCount } from '#model/architectures/decoder-config.js'
import { fromHfConfig } from '#model/architectures/hf-config.js'
import { encodeSafetensors } from '#model/weights/safetensors.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'
import { warmupCosine } from '#numerics/optim/learning-rate-schedule.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { toHfTensors } from '#plugins/torch/parameters.js'
import {
  createFullTrainer,
  decodeFullState,
  encodeFullState,
  initialState,
} from '../../dist/test/spark/training/full-trainer.js'
import { beginFrom } from './begin.js'
import { openTrainingData, readHeldOut, toMicroBatches } from './data/data-order.js'
import { readManifest } from './data/mixture.js'
import { MIXTURE_DIRECTORY, MODEL_DIRECTORY, RUN_DIRECTORY } from './paths.js'
import { sparkConfig } from './text-model/model-config.js'

const { values } = parseArgs({
  options: {
    tokens: { type: 'string' },
    'peak-rate': { type: 'string', default: '4e-3' },
    floor: { type: 'string', default: '0.03' },
    'weight-decay': { type: 'string', default: '0.1' },
    optimizer: { type: 'string', default: 'muon' },
    'micro-batch-tokens': { type: 'string', default: '2048' },
    'micro-batches': { type: 'string', default: '4' },
    'warmup-steps': { type: 'string', default: '60' },
    /** Step at which this schedule begins, with a warm-up of its own; `--tokens` counts from the run's beginning. */
    'from-step': { type: 'string', default: '0' },
    /** Steps at the end over which the learning rate falls; before them `--tokens` may still change. */
    'decay-steps': { type: 'string', default: 'Infinity' },
    'evaluate-every': { type: 'string', default: '200' },
    'held-out-rows': { type: 'string', default: '2' },
    threads: { type: 'string', default: '2' },
    /** Stops here, before the end of the schedule. */
    'until-step': { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: 'spark' },
    /** A model whose weights the run begins with, in place of drawn ones; rows of its embedding that are one point are drawn anew. */
    'from-weights': { type: 'string' },
    model: { type: 'string', default: MODEL_DIRECTORY },
    mixture: { type: 'string', default: MIXTURE_DIRECTORY },
    run: { type: 'string', default: RUN_DIRECTORY },
    fresh: { type: 'boolean', default: false },
  },
})

const SAVE_EVERY = 50
const statePath = join(values.run, 'state.safetensors')
const logPath = join(values.run, 'log.jsonl')
if (values.fresh) rmSync(values.run, { recursive: true, force: true, maxRetries: 20 })
mkdirSync(values.run, { recursive: true })

const manifest = readManifest(values.mixture)
const mixtureDigest = manifest.train.map((/** @type {{ sha256: string }} */ { sha256 }) => sha256).join(' ')
const hfConfig = sparkConfig(manifest.vocabularySize)
const config = fromHfConfig(hfConfig)
const optimizer = values.optimizer === 'adamw' ? 'adamw' : 'muon'
const data = openTrainingData(values.mixture, manifest, Number(values['micro-batch-tokens']))
const heldOut = readHeldOut(values.mixture, manifest, Number(values['held-out-rows']))
const perStep = Number(values['micro-batches'])
const totalSteps = Math.floor(
  values.tokens === undefined
    ? data.epochLength / perStep
    : Number(values.tokens) / (perStep * Number(values['micro-batch-tokens'])),
)

let best = Number.POSITIVE_INFINITY
let tokensSeen = 0
let secondsBefore = 0
const state = await restore()
const startedAt = performance.now()
const seconds = () => secondsBefore + (performance.now() - startedAt) / 1000
const trainer = await createFullTrainer({
  config,
  state,
  session: {
    runtime: createOrtRuntime(),
    directory: values.run,
    frequencies: rotaryFrequencies(config.rotary, config.headSize),
    threads: Number(values.threads),
  },
})
log({
  event: 'started',
  parameters: parameterCount(config),
  totalSteps,
  step: state.adamW.stepCount,
  settings: { ...values },
})

const fromStep = Number(values['from-step'])
if (state.adamW.stepCount < fromStep) {
  throw new Error(
    `--from-step ${fromStep} is ahead of the run in ${values.run}, which is at step ${state.adamW.stepCount}`,
  )
}
const lastStep = Math.min(totalSteps, Number(values['until-step']))

while (state.adamW.stepCount < lastStep) {
  const stepStartedAt = performance.now()
  const step = state.adamW.stepCount
  const learningRate = warmupCosine(step - fromStep, {
    peak: Number(values['peak-rate']),
    floor: Number(values.floor),
    warmupSteps: Number(values['warmup-steps']),
    totalSteps: totalSteps - fromStep,
    decaySteps: Number(values['decay-steps']),
  })
  const { microBatches, tokens, trained } = toMicroBatches(Array.from({ length: perStep }, () => data.next()))
  const { loss, gradientNorm } = await trainer.step(microBatches, {
    learningRate,
    weightDecay: Number(values['weight-decay']),
    beta2: 0.95,
    maxGradientNorm: 1,
  })
  tokensSeen += tokens
  const rate = tokens / ((performance.now() - stepStartedAt) / 1000)
  log({
    step: step + 1,
    loss: round(loss),
    gradientNorm: round(gradientNorm),
    learningRate,
    tokens: tokensSeen,
    trained,
    tokensPerSecond: Math.round(rate),
    seconds: Math.round(seconds()),
  })
  const isLast = step + 1 === lastStep
  if ((step + 1) % Number(values['evaluate-every']) === 0 || isLast) await evaluate(step + 1)
  if ((step + 1) % SAVE_EVERY === 0 || isLast) save()
}
await trainer.release()
data.close()

async function restore() {
  if (existsSync(statePath)) {
    const { state: restored, notes } = decodeFullState(readFileSync(statePath), config)
    // Another mixture is read from its beginning; everything else goes on.
    if (notes.get('mixture') === mixtureDigest) data.seek(JSON.parse(notes.get('position') ?? '[]'))
    best = Number(notes.get('best'))
    tokensSeen = Number(notes.get('tokens'))
    secondsBefore = Number(notes.get('seconds'))
    return restored
  }
  const from = values['from-weights']
  if (from === undefined) return initialState(config, values.seed, optimizer)
  const { state: begun, redrawn } = await beginFrom(from, config, values.seed, optimizer)
  log({ event: 'begun', from, redrawn: redrawn.length })
  return begun
}

function save() {
  const notes = {
    mixture: mixtureDigest,
    position: JSON.stringify(data.position),
    best: String(best),
    tokens: String(tokensSeen),
    seconds: String(seconds()),
  }
  writeFileSync(`${statePath}.partial`, encodeFullState(state, notes))
  renameSync(`${statePath}.partial`, statePath)
}

/** Held-out loss by source; keeps the weights if they are the best so far. @param {number} step */
async function evaluate(step) {
  /** @type {Record<string, number>} */
  const losses = {}
  for (const [name, rows] of heldOut) {
    const [microBatch] = toMicroBatches([rows]).microBatches
    if (microBatch !== undefined) losses[name] = round(await trainer.evaluate(microBatch))
  }
  const mean = Object.values(losses).reduce((sum, loss) => sum + loss, 0) / heldOut.size
  log({ step, heldOutLoss: round(mean), heldOut: losses, seconds: Math.round(seconds()) })
  if (mean >= best) return
  best = mean
  writeModel(join(values.run, 'best'))
}

/** Writes the weights as a model that `serve --base-model` takes. @param {string} directory replaced whole */
function writeModel(directory) {
  const partial = `${directory}.partial`
  rmSync(partial, { recursive: true, force: true, maxRetries: 20 })
  cpSync(values.model, partial, { recursive: true })
  writeFileSync(join(partial, 'config.json'), `${JSON.stringify(hfConfig, null, 2)}\n`)
  writeFileSync(join(partial, 'model.safetensors'), encodeSafetensors(toHfTensors(config, state.weights)))
  rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  renameSync(partial, directory)
}

/** @param {object} entry */
function log(entry) {
  const line = JSON.stringify(entry)
  appendFileSync(logPath, `${line}\n`)
  console.log(line)
}

/** @param {number} value */
function round(value) {
  return Number(value.toPrecision(6))
}
