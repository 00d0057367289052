/**
 * `train rl --prompts`: its flags, what excludes what, and what is said at its end. The loop itself is `reward-loop.ts`.
 */
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import type { CommandContext } from '../command/context.js'
import { flag } from '../command/flags.js'
import { assertWritable } from '../local/output-file.js'
import { planRollout, type RolloutPlan, rolloutFlags } from '../rollout/sample.js'
import { UsageError } from '../terminal/errors.js'
import { formatNumber, plural } from '../terminal/format.js'
import { type LoopEnd, type LoopFlags, runRewardLoop } from './reward-loop.js'
import type { Hyperparameters } from './submission.js'
import { splitPrompts } from './tuning.js'

const { prompts: _, maxTokens, concurrency, retries, ...asking } = rolloutFlags
const [JOBS, PROMPTS, ANSWERS, HELD_OUT_ANSWERS] = [10, 16, 8, 4]

/** Absent ones are undefined: beside `--file` they would be without effect. */
export const loopFlags = {
  prompts: flag.text('--prompts <file>', 'prompts to sample and train on, in place of --file'),
  heldOut: flag.text('--held-out <file>', 'prompts to measure on; default every fourth of --prompts'),
  jobs: flag.integer(1, 1000)('--jobs <n>', `jobs at most; default ${JOBS}`),
  ...asking,
  maxTokens: flag.integer(1)(maxTokens.spelling, maxTokens.summary),
  count: flag.integer(2, 128)('-n <count>', `answers per prompt to train on, 2 to 128; default ${ANSWERS}`, {
    isAdvanced: true,
  }),
  samples: flag.integer(1, 128)('--samples <count>', `answers per held-out prompt; default ${HELD_OUT_ANSWERS}`, {
    isAdvanced: true,
  }),
  pick: flag.integer(1, 100_000)('--pick <n>', `prompts of a job, in turn; default ${PROMPTS}`, { isAdvanced: true }),
  concurrency: flag.integer(1, 512)(concurrency.spelling, concurrency.summary, { isAdvanced: true }),
  retries: flag.integer(0, 10)(retries.spelling, retries.summary, { isAdvanced: true }),
}
/** By the names they are given with. */
const OF_LOOP = {
  ...{ heldOut: '--held-out', jobs: '--jobs', reward: '--reward', rewardRange: '--reward-range', system: '--system' },
  ...{ temperature: '--temperature', maxTokens: '--max-tokens', seed: '--seed', count: '-n', samples: '--samples' },
  ...{ pick: '--pick', concurrency: '--concurrency', retries: '--retries' },
} as const
const OF_FILE = { watch: '--watch', plan: '--plan', dryRun: '--dry-run', allowEmpty: '--allow-empty' } as const

type Given = { readonly file: string | undefined; readonly prompts: string | undefined } & {
  readonly [Name in keyof typeof OF_LOOP]: unknown
} & { readonly [Name in keyof typeof OF_FILE]: boolean }

/** @throws {UsageError} where both are given or none, or a flag of the one stands beside the other */
export function assertOneSource(flags: Given): void {
  const { file, prompts } = flags
  if (file === undefined && prompts === undefined) {
    throw new UsageError('missing_option', '--file with trajectory groups is required, or --prompts to sample them', {
      param: '--file',
      hint: 'trainyard rollout makes a file; trainyard help files shows the format',
    })
  }
  if (file !== undefined && prompts !== undefined) {
    throw new UsageError(
      'conflicting_options',
      '--file trains on groups that are there, --prompts samples them: give one',
    )
  }
  const others = Object.entries(prompts === undefined ? OF_LOOP : OF_FILE)
  const given = others.find(([name]) => {
    const value = flags[name as keyof Given]
    return value !== undefined && value !== false
  })
  if (given === undefined) return
  const [, name] = given
  throw new UsageError('conflicting_options', `${name} is for ${prompts === undefined ? '--prompts' : '--file'} only`, {
    param: name,
    hint: prompts === undefined ? 'trainyard rollout takes it, too' : 'a loop is followed to its end; leave it out',
  })
}

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
