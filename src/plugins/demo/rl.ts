/**
 * Reinforcement learning as a user would write it: sample groups of answers, score them, train on them, repeat.
 *
 * All prompts of a turn are asked at once, so that the service can answer them side by side. Groups whose rewards are equal
 * teach nothing and are not sent.
 */
import { sizeDefaults } from '#contract/jobs/size-defaults.js'
import { parametersOf } from '#sdk/client/model-size.js'
import type { DemoEvent, DemoFinished, DemoGradientStep, DemoStep } from './events.js'
import { finish, GOAL, isOutOfTime, toPoint } from './outcome.js'
import {
  type AnsweredPrompt,
  ask,
  type DemoOptions,
  type FinishedJob,
  type Measurement,
  mean,
  measure,
  rewardsOf,
  runJob,
  secondsSince,
  shuffled,
  toGroup,
} from './session.js'
import type { DemoItem } from './task.js'

/** Prompts of one turn. */
const PROMPTS_PER_STEP = 16
/** Answers to each of them: one group. */
const GROUP_SIZE = 8
/** Turns in a row without anything to learn from that end it, too. */
const MAX_IDLE_STEPS = 3

/** Runs the loop; the last event is `demo.finished`. */
export async function* trainByRl(options: DemoOptions): AsyncGenerator<DemoEvent> {
  const before = await measure(options, 0)
  yield before.event
  let latest = before
  const heldOut = [toPoint(before)]
  let [step, tokens, idle, turnMs] = [0, 0, 0, 0]
  let reason: DemoFinished['reason'] = 'steps'
  for (let turn = 1; turn <= options.steps; turn += 1) {
    const beganMs = options.clock.monotonicMs()
    if (turn > 1 && isOutOfTime(options, { endMs: beganMs - options.startMs + turnMs, before, latest })) {
      reason = 'time'
      break
    }
    const answered = await sampleTurn(options, { turn, step })
    const job = yield* train(options, answered)
    step = job?.step ?? step
    idle = job === null ? idle + 1 : 0
    if (job !== null) {
      latest = await measure(options, step)
      heldOut.push(toPoint(latest))
    }
    const report = describeTurn(options, { answered, job, step, latest })
    tokens += report.tokens
    yield report
    turnMs = options.clock.monotonicMs() - beganMs
    if (latest.event.held_out_reward >= GOAL || idle >= MAX_IDLE_STEPS) {
      reason = idle >= MAX_IDLE_STEPS ? 'nothing_to_learn' : 'goal'
      break
    }
  }
  yield finish(options, { kind: 'rl', reason, before, after: latest, heldOut, tokens })
}

/** The prompts of a turn, each answered by a group; prompts come round again when all were asked. */
async function sampleTurn(
  options: DemoOptions,
  { turn, step }: { readonly turn: number; readonly step: number },
): Promise<readonly AnsweredPrompt[]> {
  const { training } = options.task
  const first = (turn - 1) * PROMPTS_PER_STEP
  const items = Array.from({ length: PROMPTS_PER_STEP }, (_, i): readonly DemoItem[] => {
    const [round, at] = [Math.floor((first + i) / training.length), (first + i) % training.length]
    return shuffled(training, `${options.seed} round ${round}`).slice(at, at + 1)
  }).flat()
  return await Promise.all(items.map((item) => ask(options, item, { step, count: GROUP_SIZE, seed: `turn ${turn}` })))
}

/** One training job on the groups that differ in reward; null when none does. */
async function* train(
  options: DemoOptions,
  answered: readonly AnsweredPrompt[],
): AsyncGenerator<DemoGradientStep, FinishedJob | null> {
  const groups = answered.filter(isUseful).map(toGroup)
  if (groups.length === 0) return null
  const { client, model, seed, signal } = options
  // what `train rl` sends for a model of this size
  const parameters = await parametersOf(client, model.base_model, { signal })
  const request = {
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { ...sizeDefaults('rl', {}, parameters), seed },
  }
  return yield* runJob(options, () => client.trainingJobs.createRl(request, { signal }))
}

function isUseful({ answers }: AnsweredPrompt): boolean {
  return answers.some((answer) => answer.reward !== answers[0]?.reward)
}

function describeTurn(
  options: DemoOptions,
  {
    answered,
    job,
    step,
    latest,
  }: {
    readonly answered: readonly AnsweredPrompt[]
    readonly job: FinishedJob | null
    readonly step: number
    readonly latest: Measurement
  },
): DemoStep {
  return {
    object: 'demo.step',
    step,
    reward: mean(rewardsOf(answered)),
    groups: answered.length,
    trained_groups: answered.filter(isUseful).length,
    gradient_steps: job?.gradientSteps ?? 0,
    tokens: answered.reduce((sum, { reply }) => sum + reply.usage.total_tokens, 0),
    loss: job?.loss ?? null,
    kl: job?.kl ?? null,
    entropy: job?.entropy ?? null,
    held_out_reward: latest.event.step === step && job !== null ? latest.event.held_out_reward : null,
    job_id: job?.id ?? null,
    seconds: secondsSince(options),
  }
}
