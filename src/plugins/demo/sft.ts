/**
 * Fine-tuning as a user would do it: a file of example conversations, one job per round over it, a look at the held-out
 * prompts after each.
 *
 * The examples are the training prompts of the task with answers that earn the full reward.
 */
import type { DemoEvent, DemoFinished, DemoStep } from './events.js'
import { finish, GOAL, isOutOfTime, toPoint } from './outcome.js'
import { type DemoOptions, measure, runJob, secondsSince, shuffled } from './session.js'

/** Examples of one job at most: a round is short enough to be watched. */
const EXAMPLES_PER_STEP = 96
/** Examples per gradient step. */
const BATCH_SIZE = 8
/** Falls from job to job. */
const LEARNING_RATE = 2e-3

/** Runs the rounds; the last event is `demo.finished`. */
export async function* trainBySft(options: DemoOptions): AsyncGenerator<DemoEvent> {
  const { client, model, task, seed, signal } = options
  const before = await measure(options, 0)
  yield before.event
  let latest = before
  const heldOut = [toPoint(before)]
  let [tokens, turnMs] = [0, 0]
  let reason: DemoFinished['reason'] = 'steps'
  for (let turn = 1; turn <= options.steps; turn += 1) {
    const beganMs = options.clock.monotonicMs()
    if (turn > 1 && isOutOfTime(options, { endMs: beganMs - options.startMs + turnMs, before, latest })) {
      reason = 'time'
      break
    }
    const examples = shuffled(task.training, `${seed} round ${turn}`).slice(0, EXAMPLES_PER_STEP)
    const lines = examples.map(({ prompt, reference }) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: prompt },
          { role: 'assistant', content: reference },
        ],
      }),
    )
    const file = await client.files.upload(new Blob([lines.join('\n')]), `${task.name}-${turn}.jsonl`, { signal })
    const config = { batch_size: BATCH_SIZE, learning_rate: LEARNING_RATE / turn, seed }
    const request = { model_id: model.id, training_data_url: file.id, config }
    const job = yield* runJob(options, () => client.trainingJobs.createSft(request, { signal }))
    latest = await measure(options, job.step)
    heldOut.push(toPoint(latest))
    tokens += job.tokens
    const report: DemoStep = {
      object: 'demo.step',
      step: job.step,
      reward: null,
      groups: examples.length,
      trained_groups: examples.length,
      gradient_steps: job.gradientSteps,
      tokens: job.tokens,
      loss: job.loss,
      kl: null,
      entropy: job.entropy,
      held_out_reward: latest.event.held_out_reward,
      job_id: job.id,
      seconds: secondsSince(options),
    }
    yield report
    turnMs = options.clock.monotonicMs() - beganMs
    if (latest.event.held_out_reward >= GOAL) {
      reason = 'goal'
      break
    }
  }
  yield finish(options, { kind: 'sft', reason, before, after: latest, heldOut, tokens })
}
