/**
 * Does it learn on a task of one's own? Tasks of `tasks.js` × seeds, each on a fresh model, in the way that the product itself advises, on
 * its defaults, by the command line or by `trainyard/rl`:
 *
 *     npm run build && node test/bench/newcomer/run.js [--door command-line|library] [--tasks labels,json] [--seeds 1,2,3]
 *         [--minutes 10] [--rise 0.3] [--until 0.95] [--url URL] [--out FILE] [--smollm FILE.gguf] [--print-tasks]
 *
 * The way: measure held-out prompts; where that says that no answer earned anything, or hardly one, show right answers (`train sft`), else
 * answers with rewards (`rollout`, `train rl`), until the held-out reward has risen by `--rise`, or is `--until` where that is given, or the time
 * is over, or the product says that the model guesses or that there is nothing left to learn. The seed is that of sampling and of the jobs. Prints a line per run as JSON, and all of
 * them as a table of Markdown: the held-out reward before and after, minutes by the clock and of processors (all processes of the
 * service and of the commands), and what was said.
 */
import { appendFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { treeSeconds } from '../support/processes.js'
import { openCommandLine } from './command-line.js'
import { openLibrary } from './library.js'
import { SMOLLM, TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    door: { type: 'string', default: 'command-line' },
    tasks: { type: 'string', default: 'labels,json,remainder,word-smollm,json-smollm' },
    seeds: { type: 'string', default: '1,2,3' },
    minutes: { type: 'string', default: '10' },
    rise: { type: 'string', default: '0.3' },
    until: { type: 'string' },
    url: { type: 'string' },
    smollm: { type: 'string', default: '.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf' },
    out: { type: 'string' },
    'print-tasks': { type: 'boolean', default: false },
  },
})
const DOORS = { 'command-line': openCommandLine, library: openLibrary }
const PROMPTS_PER_JOB = 16
/** What `eval` and `evaluate` say where right answers come before rewards, and where nothing was learned but which answers there are. */
const SHOW_FIRST = /^reward (0 everywhere|nearly nowhere)/
const GUESSES = /^right as often as by guessing/
/** What rewards say where the prompts that are trained on have no more to teach. */
const SOLVED = /(little is left to learn|nothing left to teach)/
/** Each form of advice is followed so often before a run ends. */
const MOST_SHOWN = 2

/** So many rows, in an order by the seed. */
function draw(rows, count, seed) {
  const keyed = rows.map((row, i) => ({ row, key: Math.sin((i + 1) * 12.9898 + seed * 78.233) * 43758.5453 }))
  const fraction = (value) => value - Math.floor(value)
  return keyed
    .toSorted((a, b) => fraction(a.key) - fraction(b.key))
    .slice(0, count)
    .map(({ row }) => row)
}

async function oneRun(door, name, seed) {
  const task = TASKS[name]
  const [begin, processor] = [performance.now(), treeSeconds(process.pid)]
  const minutes = () => (performance.now() - begin) / 60_000
  const [curve, jobs, said] = [[], [], []]
  const model = await door.create(`${name}-${seed}-${process.pid}`, task)
  const measure = async () => {
    const measured = await door.measure(model, task, seed)
    curve.push(measured.reward)
    said.push(...measured.said)
    const shown = curve.map((each) => each.toFixed(2)).join(' ')
    process.stderr.write(`${name} seed ${seed}: ${shown} (${minutes().toFixed(1)} min)\n`)
    return measured.said
  }
  const isDone = () =>
    values.until === undefined ? curve.at(-1) >= curve[0] + Number(values.rise) : curve.at(-1) >= Number(values.until)
  let advice = await measure()
  while (!isDone() && !advice.some((each) => SOLVED.test(each)) && minutes() < Number(values.minutes)) {
    const isToShow = advice.some((each) => SHOW_FIRST.test(each) || GUESSES.test(each))
    if (isToShow && jobs.filter((kind) => kind === 'sft').length >= MOST_SHOWN) break
    if (isToShow) {
      const examples = draw(task.training, task.examples, seed).map(({ prompt, answer, shown = answer }) => ({
        messages: [
          { role: 'user', content: prompt },
          { role: 'assistant', content: shown },
        ],
      }))
      said.push(...(await door.show(model, examples, seed)))
      jobs.push('sft')
      advice = await measure()
    } else {
      const job = jobs.length + 1
      const prompts = draw(task.training, PROMPTS_PER_JOB, 1000 * seed + job)
      const told = await door.reward(model, task, { prompts, seed, job })
      said.push(...told)
      jobs.push('rl')
      advice = [...told.filter((each) => SOLVED.test(each)), ...(await measure())]
    }
  }
  return {
    task: name,
    door: values.door,
    seed,
    curve,
    jobs,
    minutes: Number(minutes().toFixed(2)),
    processorMinutes: Number(((treeSeconds(process.pid) - processor) / 60).toFixed(2)),
    said: [...new Set(said.map(short))],
  }
}

/** What was said, without its figures. */
const short = (text) => text.replaceAll(/\d[\d.e+-]*/g, '#').slice(0, 120)

function table(runs) {
  const cells = runs.map(({ task, seed, curve, jobs, minutes, processorMinutes, said }) => [
    task,
    seed,
    curve[0].toFixed(2),
    curve.at(-1).toFixed(2),
    jobs.join(', '),
    minutes.toFixed(1),
    processorMinutes.toFixed(1),
    said.find((each) => GUESSES.test(each))?.split(':')[0] ?? '',
  ])
  const head = ['task', 'seed', 'before', 'after', 'jobs', 'minutes', 'processor minutes', 'said']
  return [head, head.map(() => '---'), ...cells].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

if (values['print-tasks']) {
  process.stdout.write(JSON.stringify(TASKS))
  process.exit()
}
const names = values.tasks.split(',')
const isSmollm = names.some((name) => TASKS[name].baseModel === SMOLLM)
const door = await DOORS[values.door]({
  url: values.url,
  smollm: isSmollm ? { name: SMOLLM, file: values.smollm } : undefined,
})
try {
  const runs = []
  for (const name of names) {
    for (const seed of values.seeds.split(',').map(Number)) {
      runs.push(await oneRun(door, name, seed))
      const line = JSON.stringify(runs.at(-1))
      process.stderr.write(`${line}\n`)
      if (values.out !== undefined) await appendFile(values.out, `${line}\n`)
    }
  }
  const risen = runs.filter(({ curve }) => curve.at(-1) >= curve[0] + Number(values.rise))
  console.log(`${table(runs)}\n\n${risen.length} of ${runs.length} runs rose by ${values.rise} or more`)
} finally {
  await door.close()
}
