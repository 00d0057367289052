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
import { startService } from '../support/service-process.js'
import { MODEL_DIRECTORY, RUN_DIRECTORY, SPARK_CACHE } from './paths.js'
import { PHASES, RUN } from './run.js'

/** Held-out questions of each ability. */
const QUESTIONS = '200'

if (!existsSync(join(MODEL_DIRECTORY, 'tokenizer.json'))) await step('train-tokenizer.js')
for (const { mixture, untilStep } of PHASES) {
  const out = join(SPARK_CACHE, mixture.name)
  if (!existsSync(join(out, 'manifest.json'))) {
    const { tokens, seed, emphasis, isBrief } = mixture
    const style = isBrief ? ['--brief'] : []
    await step(
      'write-mixture.js',
      '--out',
      out,
      '--tokens',
      String(tokens),
      '--seed',
      seed,
      '--emphasis',
      emphasis,
      ...style,
    )
  }
  const { tokens, decaySteps, seed } = RUN
  const schedule = ['--tokens', String(tokens), '--decay-steps', String(decaySteps), '--until-step', String(untilStep)]
  await step('train.js', '--mixture', out, '--seed', seed, ...schedule)
}
await step('export.js', '--from', join(RUN_DIRECTORY, 'best'))
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
