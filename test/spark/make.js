/**
 * The whole recipe of `trainyard/spark` in one command: `npm run build && node test/spark/make.js`.
 *
 * Tokenizer, mixtures, training as `run.js` says (hours; goes on where it stopped), export into `src/assets/spark/`, scores, model
 * card. Each part is a command of its own, see README.md. What is already there is not made again; delete `.cache/spark` to start over.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { startService } from '../support/service/service-process.js'
import { MODEL_DIRECTORY, RUN_DIRECTORY, SECOND_RUN_DIRECTORY, SPARK_CACHE } from './paths.js'
import { PHASES, RUN, SECOND_PHASES } from './run.js'

/** Held-out questions of each ability. */
const QUESTIONS = '200'

if (!existsSync(join(MODEL_DIRECTORY, 'tokenizer.json'))) await step('train-tokenizer.js')
for (const phase of PHASES) await train(phase, ['--seed', RUN.seed], ['--first'])
const second = ['--seed', RUN.secondSeed, '--run', SECOND_RUN_DIRECTORY, '--from-weights', join(RUN_DIRECTORY, 'best')]
for (const phase of SECOND_PHASES) await train(phase, second)
await step('export.js', '--from', join(SECOND_RUN_DIRECTORY, 'best'))
const scores = join(SPARK_CACHE, 'scores.json')
const service = await startService({ args: ['--base-model', 'trainyard/spark'] })
try {
  process.env.TRAINYARD_API_KEY = service.key
  await step('evaluate.js', '--url', service.url, '--model', 'trainyard/spark', '--count', QUESTIONS, '--json', scores)
} finally {
  await service.stop()
}
await step('write-card.js', '--scores', scores)

/**
 * @param {(typeof PHASES)[number]} phase
 * @param {string[]} run
 * @param {string[]} [written]
 */
async function train({ mixture, untilStep, schedule }, run, written = []) {
  const out = join(SPARK_CACHE, mixture.name)
  if (!existsSync(join(out, 'manifest.json')))
    await step('write-mixture.js', '--out', out, ...mixtureArgs(mixture), ...written)
  await step('train.js', '--mixture', out, '--until-step', String(untilStep), ...scheduleArgs(schedule), ...run)
}

/** @param {import('./run.js').Mixture} mixture */
function mixtureArgs({ tokens, seed, style, emphasis }) {
  return ['--tokens', String(tokens), '--seed', seed, '--style', style, '--emphasis', emphasis]
}

/** @param {import('./run.js').Schedule} schedule */
function scheduleArgs({ fromStep, toStep, warmupSteps, peakRate, decaySteps }) {
  const tokens = String(toStep * RUN.tokensPerStep)
  const steps = ['--from-step', fromStep, '--warmup-steps', warmupSteps, '--decay-steps', decaySteps].map(String)
  return ['--tokens', tokens, '--peak-rate', peakRate, ...steps]
}

/**
 * Runs one part. Not `spawnSync`: while it waits nobody would read what the service writes, which stops when the pipe is full.
 *
 * @param {string} script
 * @param {...string} args
 */
async function step(script, ...args) {
  console.log(`\n--- ${script} ${args.join(' ')}`)
  const child = spawn(process.execPath, [join(import.meta.dirname, script), ...args], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${script} ended with ${code}`)
}
