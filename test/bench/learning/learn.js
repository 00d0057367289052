/**
 * Curves of held-out reward: tasks × losses × seeds, through the public API, written to `curves.json`; `draw.js` draws them.
 *
 *     npm run build && node test/bench/learning/learn.js --tasks order,larger --losses cispo,ppo --seeds 1,2,3 --jobs 10
 *         [--rate 1e-3] [--model trainyard/spark] [--url URL --key KEY]
 *
 * Without `--url` the service runs in this program on its defaults, with the built-in model. Curves that are there already are
 * made again and replaced. `pytorch.py` makes the same ones in plain PyTorch.
 */
import { parseArgs } from 'node:util'
import { createClient, gather, group, play, startLocal, TrainableModel } from '../../../dist/src/rl.js'
import { storeCurve } from './curves.js'
import { rewardOf, TASKS, weatherQuestion } from './tasks.js'

const MAX_TOKENS = { true: 32, false: 12 }
/** Of a step of the optimizer: what the command line sends for small models. */
const TOKENS_PER_STEP = 384
const LOSSES = { cispo: {}, ppo: { ppo: true } }

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: 'order,larger,reverse,tools' },
    losses: { type: 'string', default: 'cispo' },
    seeds: { type: 'string', default: '1,2,3' },
    jobs: { type: 'string', default: '10' },
    rate: { type: 'string', default: '1e-3' },
    model: { type: 'string', default: 'trainyard/spark' },
    url: { type: 'string' },
    key: { type: 'string' },
    'print-tasks': { type: 'boolean', default: false },
  },
})

/** One curve: held-out reward before the first job and after each; and the reward of what each job trained on. */
async function learn(client, task, { loss, seed }) {
  const name = `learning-${process.pid}-${seed}-${loss}-${Math.random().toString(36).slice(2, 8)}`
  const model = await new TrainableModel(client, { name, baseModel: values.model }).register()
  let asked = 0
  const maxTokens = MAX_TOKENS[String(task.hasTools === true)]
  const ask = async (question, askSeed) => {
    if (task.hasTools) return play(model, weatherQuestion(question), { maxTurns: 3, maxTokens, seed: askSeed })
    const trajectory = model.trajectory([{ role: 'user', content: question.prompt }])
    await trajectory.ask({ maxTokens, seed: askSeed })
    trajectory.reward = rewardOf(task, trajectory.answer, question.answer)
    return trajectory
  }
  const rollouts = (questions, size) =>
    gather(questions.map((question) => group(size, () => ask(question, seed * 1_000_000 + asked++))))
  const measure = async () => {
    const { metrics } = await model.evaluate(await rollouts(task.heldOut, task.heldOutSize))
    return metrics['val/reward']
  }

  const curve = [await measure()]
  const training = []
  let gradientSteps = 0
  for (let job = 0; job < Number(values.jobs); job++) {
    const batch = Array.from(
      { length: task.perStep },
      (_, i) => task.training[(job * task.perStep + i) % task.training.length],
    )
    const config = { ...LOSSES[loss], seed, tokens_per_step: TOKENS_PER_STEP }
    const trained = await model.train(await rollouts(batch, task.size), { learningRate: Number(values.rate), config })
    gradientSteps += trained.gradientSteps
    training.push(Number(trained.reward.toFixed(4)))
    curve.push(await measure())
  }
  await client.models.delete(model.id)
  return { curve, training, gradientSteps }
}

if (values['print-tasks']) {
  console.log(JSON.stringify(TASKS, null, 1))
  process.exit()
}

const local = values.url === undefined ? await startLocal() : null
const client = local?.client ?? createClient({ baseUrl: values.url, apiKey: values.key })
try {
  for (const taskName of values.tasks.split(',')) {
    for (const loss of values.losses.split(',')) {
      for (const seed of values.seeds.split(',').map(Number)) {
        const { curve, training, gradientSteps } = await learn(client, TASKS[taskName], { loss, seed })
        const key = { program: 'trainyard', model: values.model, task: taskName, loss, rate: Number(values.rate), seed }
        await storeCurve({ ...key, gradientSteps, curve, training })
        console.log(
          `${taskName} ${loss} seed ${seed}: ${curve.map((value) => value.toFixed(2)).join(' ')} (${gradientSteps} steps)`,
        )
      }
    }
  }
} finally {
  await local?.close()
}
