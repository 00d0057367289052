/**
 * One run of `learn.js`: a fresh model, a task, a method, some jobs; what is measured before the first and after each.
 */
import { readFileSync } from 'node:fs'
import { gather, group, play, TrainableModel } from 'trainyard/rl'
import { weatherQuestion } from '../../examples/weather.js'
import { rewardOf, stationEpisode } from './tasks.js'

/** What a job of each method trains on, and what the request says besides the learning rate. */
export const METHODS = {
  cispo: { trainJob: (run, job) => trainOnRollouts(run, job, {}) },
  ppo: { trainJob: (run, job) => trainOnRollouts(run, job, { ppo: true }) },
  sft: { trainJob: trainOnAnswers },
  dpo: { trainJob: trainOnPreferences },
}
/** Longest answer; a call of a tool takes more. */
const maxTokensOf = (task) => (task.hasTools ? 32 : 12)
/** Examples of an optimizer step of `sft` and `dpo`. */
const BATCH_SIZE = 8
/** Norm at which gradients are clipped: that of reinforcement learning, that of the others. */
const CLIP_NORMS = { cispo: 0.1, ppo: 0.1, sft: 1, dpo: 1 }

/**
 * @param options.curriculum chooses the questions of each job of `cispo` and `ppo`; null: in turn
 * @param options.examples right answers of the task that are trained on, twice, four to a step, before anything is measured
 * @param options.onAnswers told of one sampled answer to each held-out question, as a line of text, at each measurement
 * @param options.onJob told of the optimizer's steps and the curves after each measurement
 * @returns curves: `curve` (held-out reward), for `sft` and `dpo` `trained` (reward of the questions trained on), for `dpo`
 *   `accuracy` and `margin` (of held-out pairs); and what the jobs looked like
 */
export async function learn(client, task, { baseModel, method, jobs, onJob, ...options }) {
  const name = `learning-${process.pid}-${options.seed}-${method}-${Math.random().toString(36).slice(2, 8)}`
  const model = await new TrainableModel(client, { name, baseModel }).register()
  const run = { client, model, task, ...options, asked: 0, steps: [], curves: { curve: [] } }
  const add = (curve, value) => {
    run.curves[curve] ??= []
    run.curves[curve].push(value)
  }
  const measure = async () => {
    add('curve', await rewardOn(run, run.heldOut))
    if (method === 'sft' || method === 'dpo') add('trained', await rewardOn(run, task.training))
    await onJob({ gradientSteps: run.steps.length, ...run.curves })
  }
  if (options.examples > 0) {
    await trainOnExamples(run, task.training.slice(0, options.examples), { epochs: 2, batch_size: 4 })
    run.steps = []
  }
  const untrained = await firstTokens(run, null)
  await measure()
  let jobsMs = 0
  for (let job = 0; job < jobs; job += 1) {
    const beganAt = performance.now()
    const { training, ...curves } = await METHODS[method].trainJob(run, job)
    jobsMs += performance.now() - beganAt
    if (training !== undefined) add('training', training)
    for (const [curve, values] of Object.entries(curves)) for (const value of values) add(curve, value)
    await measure()
  }
  const trained = await firstTokens(run, untrained?.tokens)
  await client.models.delete(model.id)
  const numbers = (key) => run.steps.map((data) => data[key]).filter((value) => Number.isFinite(value))
  return {
    gradientSteps: run.steps.length,
    ...run.curves,
    moved:
      untrained === null
        ? Number.NaN
        : mean(untrained.probabilities.map((p, i) => Math.abs(p - trained.probabilities[i]))),
    norm: Math.max(...numbers('grad_norm')) / CLIP_NORMS[method],
    entropy: Math.min(...numbers('entropy')),
    secondsPerJob: jobsMs / jobs / 1000,
    memory: peakMemory(),
  }
}

/** The questions of a job: the next of the list, from its beginning again after its end. */
const batchOf = ({ task }, job) =>
  Array.from({ length: task.perStep }, (_, i) => task.training[(job * task.perStep + i) % task.training.length])

async function trainOnRollouts(run, job, options) {
  const { training, perStep, size } = run.task
  const groups =
    run.curriculum === null
      ? await rollouts(run, batchOf(run, job), size)
      : await rollouts(run, training, size, { curriculum: run.curriculum, pick: perStep })
  const config = {
    ...options,
    ...run.options,
    ...sharedConfig(run),
    tokens_per_step: run.tokensPerStep,
    num_passes: run.passes ?? 1,
  }
  const trained = await run.model.train(groups, { ...trainOptions(run), targetKl: run.targetKl, config })
  return { training: trained.reward, sampled: [sampledTokens(groups)] }
}

/** What the answers of a job took to sample. */
function sampledTokens(groups) {
  const counts = groups
    .flatMap(({ trajectories }) => trajectories.flatMap(({ choices }) => choices))
    .map((choice) => choice.token_ids.length)
  return counts.reduce((sum, count) => sum + count, 0)
}

/** A pass over the right answers, in order. */
async function trainOnAnswers(run) {
  await trainOnExamples(run, run.task.training)
  return {}
}

async function trainOnExamples(run, questions, config = { batch_size: BATCH_SIZE }) {
  const conversations = questions.map(({ prompt, call, result, answer }) => {
    const turns = call === undefined ? [prompt, answer] : [prompt, call, result, answer]
    return { messages: turns.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })) }
  })
  // one pass in order, unless more are asked for: the curves beside it in PyTorch are made so
  const inOrder = { epochs: 1, shuffle: false, ...config, ...sharedConfig(run) }
  await run.model.trainSft(conversations, { ...trainOptions(run), config: inOrder })
}

/** A pass over the pairs, in order; held-out pairs are measured before the first job and after each. */
async function trainOnPreferences(run, job) {
  const pairs = (questions) =>
    questions
      .filter(({ answer, wrong }) => wrong !== undefined && answer !== wrong)
      .map(({ prompt, answer, wrong }) => ({ prompt, chosen: answer, rejected: wrong }))
  const config = { batch_size: BATCH_SIZE, shuffle: false, ...sharedConfig(run), reference_step: 0 }
  const curves = { accuracy: [], margin: [] }
  const onEvent = (event) => {
    trainOptions(run).onEvent(event)
    const { 'val/rewards/accuracies': accuracy, 'val/rewards/margins': margin } = event.data
    if (accuracy === undefined) return
    curves.accuracy.push(accuracy)
    curves.margin.push(margin)
  }
  await run.model.trainDpo(pairs(run.task.training), {
    ...{ ...trainOptions(run), onEvent, config },
    validation: pairs(run.heldOut),
  })
  // Under the base model itself every margin is 0: nothing is preferred.
  return job === 0 ? { accuracy: [0, ...curves.accuracy], margin: [0, ...curves.margin] } : curves
}

/** What the request of every job says. */
const sharedConfig = ({ seed, precision }) => ({ seed, precision })

const trainOptions = (run) => ({
  learningRate: run.rate,
  onEvent: ({ type, data }) => {
    if (type === 'gradient_step') run.steps.push(data)
  },
})

async function rollouts(run, questions, size, options = {}) {
  const plans = questions.map((question) => group(size, () => ask(run, question), { key: JSON.stringify(question) }))
  const groups = await gather(plans, options)
  // Failed rollouts are left out of means, as in training; where all fail there is a reason to be told.
  if (groups.every(({ trajectories }) => trajectories.length === 0)) {
    throw new Error(`every rollout failed: ${groups[0]?.exceptions[0]?.message}`)
  }
  return groups
}

async function rewardOn(run, questions) {
  const groups = await rollouts(run, questions, run.task.heldOutSize)
  run.onAnswers?.(groups.flatMap(({ trajectories }) => trajectories.slice(0, 1)).map(toLine))
  const { metrics } = await run.model.evaluate(groups)
  return metrics['val/reward']
}

/** A sampled episode on one line: its reward, then what was said in turn. */
const toLine = ({ reward, messages }) =>
  `  ${reward.toFixed(1)} ${messages.map(({ content }) => JSON.stringify(content)).join(' > ')}`

async function ask(run, question) {
  const { model, task } = run
  const options = { maxTokens: maxTokensOf(task), seed: run.seed * 1_000_000 + run.asked++ }
  if (task.hasTools) return await play(model, weatherQuestion(question.city), { ...options, maxTurns: 3 })
  if (question.call !== undefined) return await play(model, stationEpisode(question), { ...options, maxTurns: 2 })
  const trajectory = model.trajectory([{ role: 'user', content: question.prompt }])
  await trajectory.ask(options)
  trajectory.reward = rewardOf(task, trajectory.answer, question.answer)
  return trajectory
}

/** Probabilities of `tokens` as the first of the answers, or of the likeliest ones; null for tasks with tools. */
async function firstTokens({ client, model, task, heldOut }, tokens) {
  if (task.hasTools) return null
  const tops = []
  for (const { prompt } of heldOut.slice(0, 16)) {
    const { choices } = await client.chat.create({
      ...{ model: model.inferenceName(), messages: [{ role: 'user', content: prompt }] },
      ...{ temperature: 0, max_completion_tokens: 1, logprobs: true, top_logprobs: 20 },
    })
    tops.push(choices[0].logprobs.content[0])
  }
  const asked = tokens ?? tops.map(({ token }) => token)
  const logprobOf = (top, token) => top.top_logprobs.find((each) => each.token === token)?.logprob
  return {
    tokens: asked,
    probabilities: asked.map((token, i) => Math.exp(logprobOf(tops[i], token) ?? Number.NEGATIVE_INFINITY)),
  }
}

const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length

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
