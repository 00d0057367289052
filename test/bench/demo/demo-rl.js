/**
 * Reinforcement learning through the API alone: SmolLM2-135M learns to answer in exactly one lowercase word.
 *
 * Each step samples groups of eight with logprobs and token ids from `/v1/chat/completions`, scores them by a rule, posts the
 * trajectory groups, waits for the checkpoint, and samples the next step from it. Mean reward is shown on prompts that are
 * never trained on.
 *
 *     npm run build && npm run model:smollm2 && node test/bench/demo/demo-rl.js [steps=15]
 */
import { countries } from 'countries-list'
import { findSmolLm2, mapConcurrently, startService } from '../../support/service/service-process.js'

const STEPS = Number(process.argv[2] ?? 15)
const GROUP_SIZE = 8
const PROMPTS_PER_STEP = 8
const LEARNING_RATE = Number(process.argv[3] ?? 3e-4)

const TOPICS = [
  'the colour of the sky',
  'a fruit',
  'a farm animal',
  'the opposite of hot',
  'a season',
  'a metal',
  'a musical instrument',
  'a sport',
  'a planet',
  'a vegetable',
  'a tool',
  'a drink',
  'a flower',
  'a bird',
  'the opposite of big',
  'something in a kitchen',
]
const prompts = [
  ...TOPICS.map((topic) => `Name ${topic}.`),
  ...Object.values(countries)
    .slice(0, 120)
    .map((country) => `Which continent is ${country.name} on?`),
]
const heldOut = prompts.filter((_, index) => index % 4 === 3).slice(0, 24)
const training = prompts.filter((_, index) => index % 4 !== 3)

/** 1 for exactly one lowercase word; else less with every further word, and less if not lowercase letters only. */
export function rewardOf(text) {
  const words = text
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '')
  if (words.length === 0) return 0
  if (/^[a-z]+$/.test(text.trim())) return 1
  const brevity = 1 / words.length
  return 0.5 * brevity + (text === text.toLowerCase() ? 0.1 : 0)
}

const modelPath = await findSmolLm2()
if (modelPath === null) throw new Error('SmolLM2 is not here; run `npm run model:smollm2` first')
const service = await startService({ args: ['--base-model', `smollm2-135m=${modelPath}`] })
try {
  const { api } = service
  const model = await api.createModel('one-word', 'smollm2-135m')
  const messagesOf = (prompt) => [{ role: 'user', content: prompt }]
  const sample = (prompt, n) =>
    api.chat({
      model: 'demo/one-word',
      messages: messagesOf(prompt),
      n,
      max_tokens: 20,
      temperature: 1,
      logprobs: true,
      return_token_ids: true,
    })
  const evaluate = async () => {
    const replies = await mapConcurrently(heldOut, 4, (prompt) => sample(prompt, 4))
    const texts = replies.flatMap((reply) => reply.choices.map((choice) => choice.message.content))
    return {
      reward: texts.reduce((sum, text) => sum + rewardOf(text), 0) / texts.length,
      exact: texts.filter((text) => rewardOf(text) === 1).length / texts.length,
      examples: texts.filter((_, index) => index % 16 === 0),
    }
  }

  const before = await evaluate()
  console.log(
    `held out before: reward ${before.reward.toFixed(3)}, one lowercase word ${(100 * before.exact).toFixed(0)}%`,
  )
  const startedAt = performance.now()
  for (let step = 0; step < STEPS; step++) {
    const batch = Array.from(
      { length: PROMPTS_PER_STEP },
      (_, index) => training[(step * PROMPTS_PER_STEP + index) % training.length],
    )
    const sampledAt = performance.now()
    const groups = await mapConcurrently(batch, 4, async (prompt) => {
      const reply = await sample(prompt, GROUP_SIZE)
      return {
        trajectories: reply.choices.map((choice) => ({
          messages_and_choices: [...messagesOf(prompt), { ...choice, prompt_token_ids: reply.prompt_token_ids }],
          reward: rewardOf(choice.message.content),
        })),
      }
    })
    const trainedAt = performance.now()
    const job = await api.call('POST', '/v1/preview/training-jobs', {
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: LEARNING_RATE },
    })
    const events = await api.waitForJob(job.id)
    const steps = events.filter((event) => event.type === 'gradient_step').map((event) => event.data)
    const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.reward))
    const mean = (list) => list.reduce((sum, value) => sum + value, 0) / Math.max(1, list.length)
    console.log(
      `step ${step + 1}: reward ${mean(rewards).toFixed(3)}  gradient steps ${steps.length}  entropy ${mean(steps.map((data) => data.entropy)).toFixed(2)}` +
        `  kl ${mean(steps.map((data) => data.kl_div)).toFixed(4)}  sampling ${((trainedAt - sampledAt) / 1000).toFixed(1)} s  training ${((performance.now() - trainedAt) / 1000).toFixed(1)} s`,
    )
  }
  const after = await evaluate()
  console.log(
    `held out after ${STEPS} steps: reward ${after.reward.toFixed(3)}, one lowercase word ${(100 * after.exact).toFixed(0)}%, ${((performance.now() - startedAt) / 1000).toFixed(0)} s`,
  )
  console.table(
    before.examples.map((text, index) => ({
      before: text.slice(0, 60),
      after: (after.examples[index] ?? '').slice(0, 60),
    })),
  )
} finally {
  await service.stop()
}
