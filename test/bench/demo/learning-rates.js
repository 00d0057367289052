/**
 * Which learning rate a model of this size wants: a task whose answers can be checked, learned at several rates with several
 * seeds; the reward on prompts never trained on, before, after each job, and what the jobs looked like.
 *
 *     npm run build && node test/bench/demo/learning-rates.js [--kind rl|sft] [--base-model trainyard/spark | FILE.gguf]
 *         [--rates 2e-4,1e-3] [--seeds 3] [--jobs 3] [--mails 16] [--answers 8] [--held-out 24]
 *
 * The task: a mail with an order number, the answer is the number and nothing else. 0.4 for an answer that holds it, 0.6 more for
 * one that is only it. `moved` is the mean change of the probability of the first token the untrained model answers with: a row
 * where the jobs trained nothing, or something else than what was asked, stands at 0 there. `s per job` is sampling and training
 * together, `memory` the peaks of all processes summed: with `--rates 3e-4 --seeds 1` this is also the row of a model in the README.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { gather, group, startLocal, TrainableModel } from 'trainyard/rl'

const { values: given } = parseArgs({
  options: {
    kind: { type: 'string', default: 'rl' },
    'base-model': { type: 'string', default: 'trainyard/spark' },
    rates: { type: 'string', default: '5e-5,2e-4,5e-4,1e-3,1.5e-3,4e-3' },
    seeds: { type: 'string', default: '3' },
    jobs: { type: 'string', default: '3' },
    mails: { type: 'string', default: '16' },
    answers: { type: 'string', default: '8' },
    'held-out': { type: 'string', default: '24' },
  },
})
const rates = given.rates.split(',').map(Number)
const [seeds, jobs, mailCount, answers, heldOutCount] = ['seeds', 'jobs', 'mails', 'answers', 'held-out'].map((name) =>
  Number(given[name]),
)
const isFile = given['base-model'].endsWith('.gguf')
const baseModel = isFile ? path.basename(given['base-model']).replace(/\.Q\w+\.gguf$/, '') : given['base-model']
/** What `trainyard train rl` sends for these sizes. */
const tokensPerStep = isFile ? 1024 : 384

const NAMES = ['Anna', 'Tom', 'Mia', 'Omar', 'Lena', 'Ravi']
const mailOf = (order) =>
  `Hello, where is order ${order}? Regards, ${NAMES[order % NAMES.length]}. Which number is the order?`
/** Odd numbers are trained on, even ones only asked about. */
const odd = (seed, count) => Array.from({ length: count }, (_, i) => 11 + 2 * ((i * 7 + seed * 13) % 44))
const heldOut = Array.from({ length: heldOutCount }, (_, i) => 12 + 2 * ((i * 5) % 44))

function rewardOf(answer, order) {
  const text = answer.trim()
  return text === String(order) ? 1 : text.includes(String(order)) ? 0.4 : 0
}

const local = await startLocal(isFile ? { baseModels: [{ name: baseModel, sourcePath: given['base-model'] }] } : {})

async function rollOut(model, orders, seed) {
  return await gather(
    orders.map((order, prompt) =>
      group(answers, async (index) => {
        const trajectory = model.trajectory([{ role: 'user', content: mailOf(order) }])
        const { content } = await trajectory.ask({ maxTokens: 12, body: { seed: seed * 1e6 + prompt * 100 + index } })
        trajectory.reward = rewardOf(content, order)
        return trajectory
      }),
    ),
    { concurrency: 16 },
  )
}

/** Greedy answers: the mean reward, and the log-probabilities of `first`, or of the token that is likeliest. */
async function measure(model, first) {
  const choices = []
  for (const order of heldOut) {
    const request = {
      model: model.inferenceName(),
      messages: [{ role: 'user', content: mailOf(order) }],
      temperature: 0,
      max_completion_tokens: 12,
      logprobs: true,
      top_logprobs: 20,
    }
    choices.push((await local.client.chat.create(request)).choices[0])
  }
  const top = choices.map((choice) => choice.logprobs.content[0])
  const tokens = first ?? top.map(({ token }) => token)
  const probabilities = tokens.map((token, i) =>
    Math.exp(top[i].top_logprobs.find((each) => each.token === token)?.logprob ?? Number.NEGATIVE_INFINITY),
  )
  const rewards = choices.map((choice, i) => rewardOf(choice.message.content ?? '', heldOut[i]))
  return { reward: mean(rewards), tokens, probabilities }
}

const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length
const seconds = (startedAt) => ((performance.now() - startedAt) / 1000).toFixed(0)
/** Most memory of this process and those it started, each at its own peak, GB; NaN where /proc is not. */
function peakMemory(pid = process.pid) {
  try {
    const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
    return Number(peak?.[1] ?? 0) / 1e6 + children.reduce((sum, child) => sum + peakMemory(Number(child)), 0)
  } catch {
    return pid === process.pid ? Number.NaN : 0
  }
}
/** The table alone is standard output. */
const progress = (text) => process.stderr.write(`${text}\n`)
const show = (value) => (Number.isFinite(value) ? value.toFixed(2) : '-')

console.log(
  `${given.kind}, ${baseModel}, ${jobs} jobs of ${mailCount} mails${given.kind === 'rl' ? ` x ${answers} answers` : ''}`,
)
console.log(
  '| rate | seed | held-out reward, before and after each job | moved | gradient steps | clip norm exceeded by | least entropy | s per job | memory, GB | s |',
)
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |')
for (const learningRate of rates) {
  for (let seed = 1; seed <= seeds; seed += 1) {
    const startedAt = performance.now()
    const name = `rate-${learningRate}-${seed}-${given.kind}`
    const model = await new TrainableModel(local.client, { name, baseModel }).register()
    const before = await measure(model, null)
    const curve = [before.reward]
    progress(`${name}: ${show(before.reward)} before, ${seconds(startedAt)} s`)
    let [steps, last] = [0, before]
    const [norms, entropies] = [[], []]
    const onEvent = ({ type, data }) => {
      if (type !== 'gradient_step') return
      steps += 1
      if (Number.isFinite(data.grad_norm)) norms.push(data.grad_norm)
      if (Number.isFinite(data.entropy)) entropies.push(data.entropy)
    }
    let jobsMs = 0
    for (let job = 0; job < jobs; job += 1) {
      const beganAt = performance.now()
      const orders = odd(seed + job, mailCount)
      const options = { learningRate, onEvent }
      if (given.kind === 'sft') {
        const rows = orders.map((order) => ({
          messages: [
            { role: 'user', content: mailOf(order) },
            { role: 'assistant', content: String(order) },
          ],
        }))
        await model.trainSft(rows, options)
      } else {
        const groups = await rollOut(model, orders, seed * 10 + job)
        // groups of equal rewards teach nothing, and then no job is made
        if (!groups.some((each) => each.isTrainable)) {
          curve.push(curve.at(-1))
          continue
        }
        await model.train(groups, { ...options, config: { tokens_per_step: tokensPerStep } })
      }
      jobsMs += performance.now() - beganAt
      last = await measure(model, before.tokens)
      curve.push(last.reward)
      progress(`${name}: ${curve.map(show).join(' ')}, ${seconds(startedAt)} s`)
    }
    const moved = mean(before.probabilities.map((value, i) => Math.abs(value - last.probabilities[i])))
    const cells = [
      learningRate,
      seed,
      curve.map(show).join(' '),
      moved.toFixed(3),
      steps,
      norms.length === 0 ? '-' : `${show(Math.max(...norms) / 0.1)}x`,
      entropies.length === 0 ? '-' : Math.min(...entropies).toFixed(3),
      (jobsMs / jobs / 1000).toFixed(1),
      show(peakMemory()),
      seconds(startedAt),
    ]
    console.log(`| ${cells.join(' | ')} |`)
  }
}
await local.close()
