/**
 * The way of a newcomer by `trainyard/rl`: the service in this program, and each step as a call with its defaults.
 */
import { gather, group, startLocal, TrainableModel } from 'trainyard/rl'

export async function openLibrary({ smollm }) {
  const added = smollm === undefined ? {} : { baseModels: [{ name: smollm.name, sourcePath: smollm.file }] }
  const local = await startLocal(added)
  const answers = async (model, task, { prompts, count, seed }) => {
    const worth = await rewardOf(task)
    return await gather(
      prompts.map((row, i) =>
        group(count, async (j) => {
          const trajectory = model.trajectory([{ role: 'user', content: row.prompt }])
          await trajectory.ask({ maxTokens: task.maxTokens, seed: seed * 100_000 + i * 128 + (j ?? 0) })
          trajectory.reward = worth(trajectory.answer, row)
          return trajectory
        }),
      ),
    )
  }
  return {
    async create(name, { baseModel }) {
      return await new TrainableModel(local.client, { name, baseModel }).register()
    },
    async measure(model, task, seed) {
      const groups = await answers(model, task, { prompts: task.heldOut, count: 4, seed })
      const { metrics, warnings } = await model.evaluate(groups, { onWarning: () => {} })
      return { reward: metrics['val/reward'], said: warnings }
    },
    async show(model, examples, seed) {
      return (await model.trainSft(examples, { config: { seed }, onWarning: () => {} })).warnings
    },
    async reward(model, task, { prompts, seed, job }) {
      const groups = await answers(model, task, { prompts, count: 8, seed: 1000 * seed + job })
      return (await model.train(groups, { config: { seed }, onWarning: () => {} })).warnings
    },
    close: async () => await local.close(),
  }
}

/** The reward as a function, as a program has it. */
async function rewardOf({ reward }) {
  if (reward === 'exact') return (answer, row) => Number(answer.trim() === row.answer)
  return (await import(`data:text/javascript,${encodeURIComponent(reward)}`)).reward
}
