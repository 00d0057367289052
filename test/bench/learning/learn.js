/**
 * What training teaches, through the public API: tasks × methods × rates × seeds, each on a fresh model. One row of a table per
 * run; with `--store` the curves go to `curves.json`, which `draw.js` draws and `pytorch.py` and `preferences.py` make beside it.
 *
 *     npm run build && node test/bench/learning/learn.js --tasks order,larger --methods cispo,ppo --seeds 1,2,3 --jobs 10
 *         [--rates 1e-3,2e-3] [--base-model trainyard/spark | FILE.gguf] [--tokens-per-step 384] [--store]
 *         [--questions N --answers N] of a job [--held-out N] questions asked after it [--target-kl X] of `cispo` and `ppo`
 *         [--precision int8] of the jobs
 *         [--passes N] over the answers of each job of `cispo` and `ppo`, [--options JSON] any other options of theirs
 *         [--curriculum] of `cispo` and `ppo`: questions that are right now and then are asked more often; in turn without it
 *         [--examples N] right answers that a model is shown before the first job; stored curves say how many
 *         [--show N] sampled answers to held-out questions at each measurement, on standard error: a shortcut is seen there
 *         [--threads N] of inference and training each, on a machine that others use too
 *         [--url URL --key KEY]
 *
 * Methods: `cispo` and `ppo` (a job trains on sampled answers), `sft` (on the right answers) and `dpo` (on the right ones against
 * the task's wrong ones, beside the base model). Without `--url` the service runs in this program on its defaults, with the
 * built-in model or the one of the file; on another server `--base-model` names one of its models.
 *
 * Columns: `held out` is the mean reward of questions never trained on, sampled, before the first job and after each. `moved` is
 * the mean change of the probability of the first token the untrained model answers with: a row where the jobs trained nothing, or
 * something else than what was asked, stands at 0 there. `s per job` is sampling and training together, `memory` the peaks of
 * all processes summed.
 */
import path from 'node:path'
import { parseArgs } from 'node:util'
import { createClient, openCurriculum, startLocal } from 'trainyard/rl'
import { weatherQuestion } from '../../examples/weather.js'
import { storeCurve } from './curves.js'
import { learn, METHODS } from './runs.js'
import { TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: 'order,larger,reverse,tools' },
    methods: { type: 'string', default: 'cispo' },
    rates: { type: 'string', default: '1e-3' },
    seeds: { type: 'string', default: '1,2,3' },
    jobs: { type: 'string', default: '10' },
    'base-model': { type: 'string', default: 'trainyard/spark' },
    'tokens-per-step': { type: 'string' },
    'held-out': { type: 'string' },
    questions: { type: 'string' },
    answers: { type: 'string' },
    'target-kl': { type: 'string' },
    passes: { type: 'string', default: '1' },
    options: { type: 'string', default: '{}' },
    curriculum: { type: 'boolean', default: false },
    precision: { type: 'string', default: 'f32' },
    examples: { type: 'string', default: '0' },
    store: { type: 'boolean', default: false },
    show: { type: 'string', default: '0' },
    threads: { type: 'string' },
    url: { type: 'string' },
    key: { type: 'string' },
    'print-tasks': { type: 'boolean', default: false },
  },
})

/** A task with the numbers of questions and answers that were asked for. */
function shaped(task) {
  return {
    ...task,
    perStep: Number(values.questions ?? task.perStep),
    size: Number(values.answers ?? task.size),
    heldOut: task.heldOut.slice(0, Number(values['held-out'] ?? task.heldOut.length)),
  }
}

if (values['print-tasks']) {
  const all = await Promise.all(Object.entries(TASKS).map(async ([name, task]) => [name, await asData(shaped(task))]))
  console.log(JSON.stringify(Object.fromEntries(all), null, 1))
  process.exit()
}

/** A task without code: of one with tools the conversation's beginning, the tools, and what the right call brings. */
async function asData(task) {
  if (!task.hasTools) return task
  const tools = []
  const describe = async ({ city }) => {
    const environment = weatherQuestion(city)
    const start = await environment.reset()
    tools.splice(0, tools.length, ...start.tools)
    const call = { id: 'call_0', name: start.tools[0].function.name, arguments: { city } }
    const { messages } = await environment.step({ toolCalls: [call] })
    const [{ content: result }] = messages
    return { prompt: start.messages[0].content, city, result, answer: String(JSON.parse(result).temperature) }
  }
  const training = await Promise.all(task.training.map(describe))
  return { ...task, training, heldOut: await Promise.all(task.heldOut.map(describe)), tools }
}

/** The known names of a list; ends the program on another. */
function known(list, names, what) {
  const unknown = list.split(',').find((name) => !names.includes(name))
  if (unknown === undefined) return list.split(',')
  console.error(`no ${what} "${unknown}"; known: ${names.join(', ')}`)
  process.exit(2)
}

const tasks = known(values.tasks, Object.keys(TASKS), 'task')
/** None unless asked for: the stored curves are those of the published algorithm, beside plain PyTorch. */
const targetKl = values['target-kl'] === undefined ? null : Number(values['target-kl'])
if (values.store && targetKl !== null) {
  console.error('--store keeps curves of the published algorithm: leave --target-kl out')
  process.exit(2)
}
const passes = Number(values.passes)
if (values.store && passes !== 1) {
  console.error('--store keeps curves of the published algorithm: leave --passes out')
  process.exit(2)
}
if (values.store && values.options !== '{}') {
  console.error('--store keeps curves of the published algorithm: leave --options out')
  process.exit(2)
}
if (values.store && values.curriculum) {
  console.error('--store keeps curves of questions in turn: leave --curriculum out')
  process.exit(2)
}
const { precision } = values
if (values.store && precision !== 'f32') {
  console.error('--store keeps curves of float32: leave --precision out')
  process.exit(2)
}
const examples = Number(values.examples)
const methods = known(values.methods, Object.keys(METHODS), 'method')
const file = values['base-model'].endsWith('.gguf') ? values['base-model'] : null
const baseModel = file === null ? values['base-model'] : path.basename(file).replace(/\.Q\w+\.gguf$/, '')
/** What `trainyard train rl` sends for these sizes. */
const tokensPerStep = Number(values['tokens-per-step'] ?? (baseModel === 'trainyard/spark' ? 384 : 1024))

/** The table alone is standard output. */
const progress = (text) => process.stderr.write(`${text}\n`)
const show = (value) => (Number.isFinite(value) ? value.toFixed(2) : '-')

const local =
  values.url === undefined
    ? await startLocal({
        ...(file === null ? {} : { baseModels: [{ name: baseModel, sourcePath: file }] }),
        ...(values.threads === undefined ? {} : { threads: Number(values.threads) }),
      })
    : null
const client = local?.client ?? createClient({ baseUrl: values.url, apiKey: values.key })
console.log(
  '| task | method | rate | seed | held out | moved | steps | clip norm exceeded by | least entropy | s per job | memory, GB |',
)
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |')
try {
  for (const taskName of tasks) {
    const task = shaped(TASKS[taskName])
    for (const method of methods) {
      for (const rate of values.rates.split(',').map(Number)) {
        for (const seed of values.seeds.split(',').map(Number)) {
          const store = async (curves) => {
            if (!values.store) return
            const entry = { program: 'trainyard', model: baseModel, task: taskName, method, rate, seed }
            await storeCurve({ ...entry, ...(examples > 0 ? { examples } : {}), ...curves })
          }
          const run = await learn(client, task, {
            ...{
              baseModel,
              method,
              rate,
              seed,
              precision,
              tokensPerStep,
              targetKl,
              passes,
              options: JSON.parse(values.options),
              curriculum: values.curriculum ? await openCurriculum({ seed }) : null,
              jobs: Number(values.jobs),
              examples,
            },
            heldOut: task.heldOut,
            onAnswers: (answers) => {
              for (const answer of answers.slice(0, Number(values.show))) progress(answer)
            },
            // After each job: a run that is cut short keeps what it has measured.
            onJob: async (curves) => {
              progress(`${taskName} ${method} ${rate} seed ${seed}: ${curves.curve.map(show).join(' ')}`)
              if (curves.sampled !== undefined) progress(`  tokens sampled: ${curves.sampled.join(' ')}`)
              await store(curves)
            },
          })
          const { moved, norm, entropy, secondsPerJob, memory, ...stored } = run
          const cells = [taskName, method, rate, seed, run.curve.map(show).join(' '), show(moved), run.gradientSteps]
          cells.push(Number.isNaN(norm) ? '-' : `${show(norm)}x`, show(entropy), show(secondsPerJob), show(memory))
          console.log(`| ${cells.join(' | ')} |`)
          await store(stored)
        }
      }
    }
  }
} finally {
  await local?.close()
}
