/**
 * `train rl --prompts`: what is read before it, and what is said at its end. The loop itself is `reward-loop.ts`.
 */

import type { CommandContext } from '#cli/command/context.js'
import { assertWritable } from '#cli/local/output-file.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { Hyperparameters } from '#cli/training/submission.js'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { rolloutFlags } from '../flags.js'
import { planRollout, type RolloutPlan } from '../sample.js'
import { splitPrompts } from '../tuning.js'
import { ANSWERS, HELD_OUT_ANSWERS, JOBS, type loopFlags, PROMPTS } from './loop-flags.js'
import { type LoopEnd, type LoopFlags, runRewardLoop } from './reward-loop.js'

const { maxTokens, concurrency, retries } = rolloutFlags

export interface PreparedLoop {
  readonly training: RolloutPlan
  readonly heldOut: RolloutPlan
  readonly flags: LoopFlags
  readonly hyperparameters: Hyperparameters
}

type LoopContext = CommandContext & {
  readonly flags: {
    readonly [Name in keyof typeof loopFlags]: ReturnType<(typeof loopFlags)[Name]['read']>
  }
}

/** Reads prompts and reward before the service is asked anything. */
export async function prepareLoop(context: LoopContext, hyperparameters: Hyperparameters): Promise<PreparedLoop> {
  const given = context.flags
  const flags: LoopFlags = {
    ...given,
    prompts: given.prompts ?? '',
    maxTokens: given.maxTokens ?? maxTokens.read([]),
    concurrency: given.concurrency ?? concurrency.read([]),
    retries: given.retries ?? retries.read([]),
    count: given.count ?? ANSWERS,
    samples: given.samples ?? HELD_OUT_ANSWERS,
    pick: given.pick ?? PROMPTS,
    jobs: given.jobs ?? JOBS,
  }
  const plan = await planRollout(context, flags)
  const parts =
    given.heldOut === undefined
      ? splitPrompts(plan.rows)
      : { training: plan.rows, heldOut: (await planRollout(context, { ...flags, prompts: given.heldOut })).rows }
  return {
    training: { ...plan, rows: parts.training },
    heldOut: { ...plan, rows: parts.heldOut },
    flags,
    hyperparameters,
  }
}

const ENDS: Readonly<Record<LoopEnd, string>> = {
  learned: 'held-out prompts earn all there is, nearly',
  no_better: 'the last two jobs were no better than the best',
  nothing_to_train: 'the answers to a prompt all earn the same: examples, or other prompts, come first',
  jobs: 'the jobs that were asked for are made',
}

/** Runs a loop and says what came of it. */
export async function runLoop(
  context: CommandContext & { readonly args: { readonly model: string } },
  client: Client,
  model: Model,
  prepared: PreparedLoop,
): Promise<void> {
  const { output, args } = context
  const statePath = `train-rl-${model.name}.json`
  await assertWritable(statePath)
  const { points, end, best } = await runRewardLoop(context, client, { ...prepared, model, statePath })
  const [first, last] = [points[0], points.at(-1)]
  const rewards = points.map(({ reward }) => formatNumber(reward)).join(', ')
  output.result(
    { object: 'training_loop', model: args.model, jobs: points.length - 1, points, best, end, state: statePath },
    `Held-out reward ${rewards} after ${plural(points.length - 1, 'job')}; ended: ${ENDS[end]}. Best: ${formatNumber(best.reward)} at step ${best.step}${first === best ? ', where it began' : ''}.`,
    [String(best.step)],
  )
  const next =
    best.step === last?.step
      ? command`trainyard chat ${args.model}`
      : command`trainyard models create ${`${model.name}-best`} --from-checkpoint ${`${args.model}:step${best.step}`}`
  output.hint(end === 'jobs' ? `more --jobs go on from here; ${next}` : next)
}
