/**
 * Shapes of an adapter side by side: a fresh model for each shape and seed learns a task of `tasks.js` by its examples, everything else on the
 * defaults of `trainyard/rl`.
 *
 *     npm run build && node test/bench/newcomer/shapes.js [--task json] [--seeds 1,2,3] [--shapes '[{}, {"lora": {"rank": 32}}]']
 *
 * A shape is options of the first job, as the API spells them. Prints a row of Markdown for each: the held-out reward of each seed, sampled, four answers to
 * each prompt, and the seconds that a job trained.
 */
import { parseArgs } from 'node:util'
import { openLibrary } from './library.js'
import { TASKS } from './tasks.js'

const SHAPES = [
  {},
  { lora: { rank: 2 } },
  { lora: { rank: 32 } },
  { lora: { rank: 32, use_rslora: true } },
  { lora: { target_modules: 'attention' } },
  { lora: { target_modules: 'mlp' } },
  { lora_dropout: 0.1 },
  { lora_dropout: 0.3 },
]
const { values } = parseArgs({
  options: {
    task: { type: 'string', default: 'json' },
    seeds: { type: 'string', default: '1,2,3' },
    shapes: { type: 'string', default: JSON.stringify(SHAPES) },
  },
})
const task = TASKS[values.task]
const examples = task.training.slice(0, task.examples).map(({ prompt, answer }) => ({
  messages: [
    { role: 'user', content: prompt },
    { role: 'assistant', content: answer },
  ],
}))
const library = await openLibrary({})
try {
  console.log('| options | held out, each seed | seconds |\n| --- | --- | --- |')
  for (const [at, shape] of JSON.parse(values.shapes).entries()) {
    const [rewards, seconds] = [[], []]
    for (const seed of values.seeds.split(',').map(Number)) {
      const model = await library.create(`shape-${at}-${seed}`, task)
      const job = await model.trainSft(examples, { config: { seed, ...shape }, onWarning: () => {} })
      seconds.push(job.seconds)
      rewards.push((await library.measure(model, task, seed)).reward)
    }
    const show = (list, digits) => list.map((each) => each.toFixed(digits)).join(', ')
    console.log(`| \`${JSON.stringify(shape)}\` | ${show(rewards, 2)} | ${show(seconds, 1)} |`)
  }
} finally {
  await library.close()
}
