/**
 * Rewards after examples, by several options of the jobs side by side: one model by examples per seed, then forks of it, one for each
 * set of options, trained by rewards on the same prompts. Answers what a default does to a model that works.
 *
 *     npm run build && node test/bench/newcomer/rates.js [--task json] [--seeds 1,2] [--jobs 5] [--passes 6] [--threads N]
 *         [--options '[{}, {"learning_rate": 3e-4}]']
 *
 * An empty set is the defaults of `trainyard/rl`. Prints a line per run: the held-out reward after the examples and after each job.
 */
import { parseArgs } from 'node:util'
import { gather, group, startLocal, TrainableModel } from 'trainyard/rl'
import { TASKS as LEARNING, rewardOf as worth } from '../learning/tasks.js'
import { TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    task: { type: 'string', default: 'json' },
    seeds: { type: 'string', default: '1,2' },
    jobs: { type: 'string', default: '5' },
    passes: { type: 'string', default: '6' },
    examples: { type: 'string' },
    options: { type: 'string', default: '[{}, {"learning_rate": 3e-4}]' },
    threads: { type: 'string' },
  },
})
/** Tasks of the curves bring their own reward, those of newcomers the text of a module. */
const isCurve = values.task in LEARNING
const task = isCurve
  ? { ...LEARNING[values.task], baseModel: 'trainyard/spark', maxTokens: 12, examples: 16 }
  : { perStep: 16, ...TASKS[values.task] }
const rewardOf = await rewardFunction()
const show = (list) => list.map((value) => value.toFixed(2)).join(' ')

async function rewardFunction() {
  if (isCurve) return (answer, row) => worth(task, answer, row.answer)
  if (task.reward === 'exact') return (answer, row) => Number(answer.trim() === row.answer)
  return (await import(`data:text/javascript,${encodeURIComponent(task.reward)}`)).reward
}

const local = await startLocal(values.threads === undefined ? {} : { threads: Number(values.threads) })
const { client } = local

async function answer(model, rows, { count, seed }) {
  return await gather(
    rows.map((row, i) =>
      group(count, async (j) => {
        const trajectory = model.trajectory([{ role: 'user', content: row.prompt }])
        await trajectory.ask({ maxTokens: task.maxTokens, seed: seed * 1_000_000 + i * 100 + (j ?? 0) })
        trajectory.reward = rewardOf(trajectory.answer, row)
        return trajectory
      }),
    ),
  )
}

async function measure(model, seed) {
  const { metrics } = await model.evaluate(await answer(model, task.heldOut, { count: 4, seed }))
  return metrics['val/reward']
}

async function createModel(name, from) {
  if (from !== undefined) await client.models.create({ name, project: 'default', from_checkpoint: from })
  return await new TrainableModel(client, { name, baseModel: task.baseModel }).register()
}

try {
  for (const seed of values.seeds.split(',').map(Number)) {
    const start = await createModel(`start-${seed}`)
    const examples = task.training.slice(0, Number(values.examples ?? task.examples)).map((row) => ({
      messages: [
        { role: 'user', content: row.prompt },
        { role: 'assistant', content: row.answer },
      ],
    }))
    if (Number(values.passes) > 0)
      await start.trainSft(examples, { config: { seed, shuffle: true, epochs: Number(values.passes) } })
    const before = await measure(start, seed)
    process.stderr.write(`seed ${seed}: ${before.toFixed(2)} after the examples\n`)
    for (const [at, options] of JSON.parse(values.options).entries()) {
      const model = await createModel(
        `fork-${seed}-${at}`,
        Number(values.passes) > 0 ? `start-${seed}:step1` : undefined,
      )
      const [curve, training, steps, warned] = [[before], [], [], new Set()]
      const beganAt = performance.now()
      for (let job = 0; job < Number(values.jobs); job += 1) {
        const rows = Array.from(
          { length: task.perStep },
          (_, i) => task.training[((job * task.perStep + i) * 7) % task.training.length],
        )
        const groups = await answer(model, rows, { count: 8, seed: seed * 1000 + job })
        const trained = await model.train(groups, {
          config: { ...options, seed },
          onWarning: (warning) => warned.add(warning.slice(0, 160)),
        })
        training.push(trained.reward)
        steps.push(trained.gradientSteps)
        curve.push(await measure(model, seed + job + 1))
        process.stderr.write(`  ${JSON.stringify(options)}: ${show(curve)}\n`)
      }
      const seconds = Math.round((performance.now() - beganAt) / 1000)
      console.log(
        JSON.stringify({ task: values.task, seed, options, curve, training, steps, seconds, warned: [...warned] }),
      )
    }
  }
} finally {
  await local.close()
}
