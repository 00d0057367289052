/**
 * Answers to many prompts with their rewards, as `trainyard rollout` and `trainyard eval` gather them.
 */
import { createHash } from 'node:crypto'
import { withRecordedSets } from '#base/sampling-record.js'
import type { CommandContext } from '#cli/command/context.js'
import { messageOf } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { ERROR_FLAGS, ERRORS_METRIC } from '#plugins/graders/grading/grade-errors.js'
import type { Curriculum } from '#plugins/rl-library/curriculum.js'
import { gather, group } from '#plugins/rl-library/gather.js'
import type { Client } from '#sdk/client/client.js'
import { Trajectory, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { RolloutFlags } from './flags.js'
import { type PromptRow, readPrompts } from './prompt-file.js'
import { hasAnswer, isBuiltInReward, loadReward, type Scorer } from './reward.js'

/** So many rewards may fail, and none succeed, before the rest is not asked for. */
const REWARDS_TRIED = 8

/** What to sample, checked before the service is asked anything. */
export interface RolloutPlan {
  readonly rows: readonly PromptRow[]
  readonly score: Scorer
  /** What a reward can be; null: nobody said. */
  readonly range: RewardRange | null
  /** Tells the reward from another. */
  readonly reward: string
}

/** @throws {UsageError} for a bad file or a bad reward */
export async function planRollout(
  context: Pick<CommandContext, 'io' | 'output' | 'connect' | 'environment'>,
  flags: Pick<RolloutFlags, 'prompts' | 'reward' | 'grader' | 'teachers' | 'rewardRange' | 'system' | 'map'>,
): Promise<RolloutPlan> {
  if (flags.grader !== undefined) {
    const { planGrading } = await import('./grader-reward.js')
    return await planGrading(context, { ...flags, grader: flags.grader })
  }
  if (flags.teachers !== undefined && flags.teachers.length > 0) {
    throw new UsageError('missing_option', '--teacher names a model that a grader may ask, and there is no --grader', {
      param: '--teacher',
      hint: 'add --grader, or leave --teacher out',
    })
  }
  const { score, range, identity } = await loadReward(flags.reward, flags.rewardRange ?? null)
  const rows = await readPrompts(flags.prompts, context.io, { ...flags, say: context.output.status })
  const bare = rows.findIndex(({ row }) => !hasAnswer(row))
  if (isBuiltInReward(flags.reward) && bare >= 0) {
    throw new UsageError('invalid_reward', `prompt ${bare + 1} has no "answer" to compare with`, {
      param: '--reward',
      hint: 'add "answer" to every row, say which column it is (--map label=answer), or give --reward a file or a command; trainyard help files shows the format',
    })
  }
  return { rows, score, range, reward: identity }
}

/** Groups, and how many more were thrown away because their rewards did not differ. */
export interface SampledGroups {
  readonly groups: readonly TrajectoryGroup[]
  readonly thrownAway: number
  /** What each of their answers was asked. */
  readonly asked: ReadonlyMap<Trajectory, PromptRow>
}

/**
 * Samples `count` answers to each prompt and scores them; failed ones are exceptions of their groups.
 *
 * @param request.until goes over the prompts again until so many groups differ, and keeps those; default each prompt once
 * @param request.drawn which prompts are asked, by what was remembered of them, and how many
 */
export async function sampleGroups(
  context: CommandContext,
  client: Client,
  request: {
    readonly model: string
    readonly plan: RolloutPlan
    readonly count: number
    readonly flags: RolloutFlags
    readonly until?: { readonly trainable: number; readonly maxAttempts: number | undefined } | null
    readonly drawn?: { readonly curriculum: Curriculum; readonly pick: number | undefined } | null
  },
): Promise<SampledGroups> {
  const { io, output, signal } = context
  const { model, plan, count, flags, until = null, drawn = null } = request
  let thrownAway = 0
  const progress = startProgress(io, output.mode === 'human', 'asking')
  const givingUp = new AbortController()
  const stop = (): void => givingUp.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  let [scored, unscored] = [0, 0]
  /** A reward that only ever fails is said before every prompt has been asked. */
  async function score(trajectory: Trajectory, row: PromptRow['row']): Promise<void> {
    try {
      await plan.score(trajectory, row, givingUp.signal)
      scored += 1
    } catch (error) {
      unscored += 1
      if (scored === 0 && unscored >= REWARDS_TRIED && !givingUp.signal.aborted) {
        givingUp.abort(
          new UsageError('invalid_reward', `no reward came for the first ${unscored} answers: ${messageOf(error)}`, {
            param: '--reward',
            hint: 'trainyard rollout --help says what a reward is given and what it returns',
          }),
        )
      }
      throw error
    }
  }
  const keys = keysOf(plan)
  const asked = new Map<Trajectory, PromptRow>()
  const plans = plan.rows.map((promptRow, prompt) => {
    const { messages, row } = promptRow
    const rollout = async (index: number): Promise<Trajectory> => {
      const trajectory = new Trajectory(messages, {
        ask: (body, options) =>
          client.chat.create({ model, ...body, ...withRecordedSets(options.body ?? {}) }, { signal: givingUp.signal }),
      })
      const body = {
        temperature: flags.temperature ?? 1,
        max_completion_tokens: flags.maxTokens,
        logprobs: true,
        return_token_ids: true,
        ...(flags.seed === undefined ? {} : { seed: flags.seed + prompt * 4096 + index }),
      }
      await trajectory.ask({ body })
      await score(trajectory, row)
      asked.set(trajectory, promptRow)
      return trajectory
    }
    return group(count, rollout, { key: keys[prompt] ?? '', rewardRange: plan.range })
  })
  try {
    const groups = await gather(plans, {
      ...(until === null ? {} : { untilTrainable: until.trainable }),
      ...(until?.maxAttempts === undefined ? {} : { maxAttempts: until.maxAttempts }),
      ...(drawn === null ? {} : { curriculum: drawn.curriculum }),
      ...(drawn?.pick === undefined ? {} : { pick: drawn.pick }),
      concurrency: flags.concurrency,
      retries: flags.retries,
      signal: givingUp.signal,
      onProgress: ({ done, total, failed, reward, thrownAway: away }) => {
        thrownAway = away ?? thrownAway
        const troubles = failed === 0 ? '' : `, ${failed} failed`
        progress.update(`${done} of ${total} answers, reward ${reward?.toFixed(3) ?? '-'}${troubles}`)
      },
    })
    // where no group differs, they are what is left
    return {
      groups,
      asked,
      thrownAway: groups.some(({ isTrainable }) => isTrainable) ? thrownAway : thrownAway - groups.length,
    }
  } finally {
    signal.removeEventListener('abort', stop)
    progress.stop()
  }
}

/** How a curriculum's file calls each prompt: by what is asked, so that rows may move and be added. */
export function keysOf({ rows }: RolloutPlan): readonly string[] {
  return rows.map(({ messages }) => createHash('sha256').update(JSON.stringify(messages)).digest('hex').slice(0, 32))
}

/** What came of it, in one sentence; warns of failures, and fails when nothing else is left. */
export function summarize(context: CommandContext, groups: readonly TrajectoryGroup[]) {
  const trajectories = groups.flatMap((each) => each.trajectories)
  const exceptions = groups.flatMap((each) => each.exceptions)
  const [first] = exceptions
  if (trajectories.length === 0) {
    throw new UsageError('rollouts_failed', `no answer came: ${first?.message ?? 'nothing was asked'}`)
  }
  if (first !== undefined) {
    context.output.warning(`${plural(exceptions.length, 'rollout')} failed, the first one: ${first.message}`)
  }
  const erring = sayOfErrors(trajectories)
  if (erring !== null) context.output.warning(erring)
  const reward = trajectories.reduce((sum, each) => sum + each.reward, 0) / trajectories.length
  return {
    groups: groups.length,
    trainable_groups: groups.filter((each) => each.isTrainable).length,
    trajectories: trajectories.length,
    exceptions: exceptions.length,
    reward,
  }
}

/** Errors of a grader by their names, and the first one's words; null where there are none. */
function sayOfErrors(trajectories: readonly Trajectory[]): string | null {
  const erring = trajectories.filter(({ metrics }) => Number(metrics[ERRORS_METRIC] ?? 0) > 0)
  const logs = erring.flatMap((each) => each.logs.filter((log) => log.startsWith('grader ')))
  const [first] = logs
  if (first === undefined) return null
  const counts = ERROR_FLAGS.flatMap((flag) => {
    const count = logs.filter((log) => log.includes(`: ${flag}: `)).length
    return count === 0 ? [] : [`${count} ${flag}`]
  })
  return `the grader erred, and earned 0 there, in ${erring.length} of ${plural(trajectories.length, 'answer')} (${counts.join(', ')}), the first: ${first}`
}
