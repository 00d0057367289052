/**
 * Does my own task work? Twenty of them (`tasks.js`) × seeds by the command line, on its defaults and its own advice alone:
 *
 *     npm run build && node test/bench/own-tasks/run.js [--tasks dates,units] [--seeds 1,2] [--minutes 10] [--rise 0.3]
 *         [--url URL] [--out FILE]
 *
 * The way: measure held-out prompts and do what that says (show right answers, or answers with rewards), until the held-out
 * reward has risen by `--rise`, or the time is over, or the product says that there is nothing to be had. Nothing is chosen
 * here: no rate, no passes, no form of a reward that grew with the results. Prints a table of Markdown with the failures, and
 * for each of them what its first job said, which somebody reads: does it say truly why not, and what to do?
 *
 * With `--out` each run is kept as a line as soon as it is over, and those that the file has are not run again.
 */
import { appendFile, readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { openCommandLine } from '../newcomer/command-line.js'
import { treeSeconds } from '../support/processes.js'
import { TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: Object.keys(TASKS).join(',') },
    seeds: { type: 'string', default: '1,2' },
    minutes: { type: 'string', default: '10' },
    rise: { type: 'string', default: '0.3' },
    url: { type: 'string' },
    out: { type: 'string' },
  },
})
/** What names examples, rewards, or the end as the next thing, wherever it is said. */
const SHOW = /train (sft|distill)/
const REWARD = /(\brollout\b|train rl)/
const DONE = /(nothing left to teach|little is left to learn|^learned:|base-models list)/
/** The same examples again teach what they taught. */
const MOST_SHOWN = 2
const PROMPTS_PER_JOB = 16

/** What the first sentence that names a next thing names; rewards where none does. */
function nextOf(said) {
  for (const each of said) {
    if (DONE.test(each)) return 'end'
    if (SHOW.test(each)) return 'show'
    if (REWARD.test(each)) return 'reward'
  }
  return 'reward'
}

/** Rows in turn, from another place for each seed. */
const take = (rows, count, from) =>
  Array.from({ length: Math.min(count, rows.length) }, (_, i) => rows[(from + i) % rows.length])

const asExample = ({ prompt, answer }) => ({
  messages: [
    { role: 'user', content: prompt },
    { role: 'assistant', content: answer },
  ],
})

async function oneRun(door, name, seed) {
  const task = TASKS[name]
  const [begin, processor] = [performance.now(), treeSeconds(process.pid)]
  const minutes = () => (performance.now() - begin) / 60_000
  const [curve, jobs, said] = [[], [], []]
  const model = await door.create(`${name}-${seed}-${process.pid}`, task)
  const measure = async () => {
    const measured = await door.measure(model, task, seed)
    curve.push(measured.reward)
    process.stderr.write(
      `${name} seed ${seed}: ${curve.map((each) => each.toFixed(2)).join(' ')} (${minutes().toFixed(1)} min)\n`,
    )
    said.push({ after: jobs.length, of: 'eval', lines: measured.said })
    return measured.said
  }
  const hasRisen = () => curve.at(-1) >= curve[0] + Number(values.rise)
  let next = nextOf(await measure())
  while (!hasRisen() && next !== 'end' && minutes() < Number(values.minutes)) {
    if (next === 'show' && jobs.filter((kind) => kind === 'sft').length >= MOST_SHOWN) break
    const lines =
      next === 'show'
        ? await door.show(model, take(task.training, task.examples, 17 * seed).map(asExample), seed)
        : await door.reward(model, task, {
            prompts: take(task.training, PROMPTS_PER_JOB, 17 * seed + PROMPTS_PER_JOB * jobs.length),
            seed,
            job: jobs.length + 1,
          })
    jobs.push(next === 'show' ? 'sft' : 'rl')
    said.push({ after: jobs.length, of: jobs.at(-1), lines })
    const measured = await measure()
    next = nextOf([...lines.filter((each) => DONE.test(each)), ...measured])
  }
  return {
    task: name,
    seed,
    curve,
    jobs,
    hasRisen: hasRisen(),
    minutes: Number(minutes().toFixed(2)),
    processorMinutes: Number(((treeSeconds(process.pid) - processor) / 60).toFixed(2)),
    said,
  }
}

function table(runs) {
  const cells = runs.map(({ task, seed, curve, jobs, hasRisen, minutes, processorMinutes }) => [
    task,
    seed,
    curve[0].toFixed(2),
    curve.at(-1).toFixed(2),
    jobs.join(', '),
    minutes.toFixed(1),
    processorMinutes.toFixed(1),
    hasRisen ? '' : 'did not rise',
  ])
  const head = ['task', 'seed', 'before', 'after', 'jobs', 'minutes', 'processor minutes', '']
  return [head, head.map(() => '---'), ...cells].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

/** What was said up to and after the first job of a run that did not rise. */
const failure = ({ task, seed, said }) =>
  [
    `${task}, seed ${seed}:`,
    ...said.filter(({ after }) => after <= 1).flatMap(({ of, lines }) => lines.map((each) => `- ${of}: ${each}`)),
  ].join('\n')

/** Runs that the file has, by task and seed; without a file none. */
async function readRuns() {
  const text = values.out === undefined ? '' : await readFile(values.out, 'utf8').catch(() => '')
  // a line that a kill cut off is run again
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  return whole.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
}

const kept = await readRuns()
const door = await openCommandLine({ url: values.url })
try {
  const runs = []
  for (const name of values.tasks.split(',')) {
    for (const seed of values.seeds.split(',').map(Number)) {
      const before = kept.find((run) => run.task === name && run.seed === seed)
      runs.push(before ?? (await oneRun(door, name, seed)))
      if (before === undefined && values.out !== undefined)
        await appendFile(values.out, `${JSON.stringify(runs.at(-1))}\n`)
    }
  }
  const failed = runs.filter(({ hasRisen }) => !hasRisen)
  console.log(`${table(runs)}\n\n${runs.length - failed.length} of ${runs.length} runs rose by ${values.rise} or more`)
  for (const run of failed) console.log(`\n${failure(run)}`)
} finally {
  await door.close()
}
