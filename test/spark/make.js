/**
 * The whole recipe of `trainyard/spark` in one command: `npm run build && node test/spark/make.js`.
 *
 * Tokenizer, mixture, training as `run.js` says (hours; goes on where it stopped), export into `src/assets/spark/`, scores, model
 * card. Each part is a command of its own, see README.md. What is already there is not made again; delete `.cache/spark` to start over.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { startService } from '../support/service-process.js'
import { MIXTURE_DIRECTORY, MODEL_DIRECTORY, RUN_DIRECTORY, SPARK_CACHE } from './paths.js'
import { MIXTURE, RUN } from './run.js'

/** Held-out questions of each ability. */
const QUESTIONS = '200'

if (!existsSync(join(MODEL_DIRECTORY, 'tokenizer.json'))) step('train-tokenizer.js')
if (!existsSync(join(MIXTURE_DIRECTORY, 'manifest.json'))) {
  step('write-mixture.js', '--tokens', String(MIXTURE.tokens), '--seed', MIXTURE.seed)
}
step('train.js', '--tokens', String(RUN.tokens), '--decay-steps', String(RUN.decaySteps), '--seed', RUN.seed)
step('export.js', '--from', join(RUN_DIRECTORY, 'best'))
const scores = join(SPARK_CACHE, 'scores.json')
const service = await startService({ args: ['--base-model', 'trainyard/spark'] })
try {
  process.env.TRAINYARD_API_KEY = service.key
  step('evaluate.js', '--url', service.url, '--model', 'trainyard/spark', '--count', QUESTIONS, '--json', scores)
} finally {
  await service.stop()
}
step('write-card.js', '--scores', scores)

/** @param {string} script @param {...string} args */
function step(script, ...args) {
  console.log(`\n--- ${script} ${args.join(' ')}`)
  const { status } = spawnSync(process.execPath, [join(import.meta.dirname, script), ...args], { stdio: 'inherit' })
  if (status !== 0) throw new Error(`${script} ended with ${status}`)
}
