/**
 * Flags of `trainyard env`, in one wording each, and what they open.
 */

import type { JsonValue } from '#base/util/json.js'
import type { CommandContext } from '#cli/command/context.js'
import { type Flag, flag } from '#cli/command/flags.js'
import { resolvePaths } from '#cli/config/paths.js'
import { parseAssignment } from '#cli/input/parse.js'
import { UsageError } from '#cli/terminal/errors.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { graderMeans, readGraderFile } from '#plugins/graders/grader-file.js'
import { gradeTrajectory } from '#plugins/graders/grading/grade-with.js'
import { rolloutFlags } from '#plugins/rollout/flags.js'
import { loadReward } from '#plugins/rollout/reward.js'
import type { AskOptions } from '#sdk/rl/trajectory.js'
import type { Judge } from '../episode.js'
import { ENVIRONMENT_DEFAULTS, openEnvironment } from '../open.js'
import type { EnvironmentSource } from '../source.js'

const { temperature, maxTokens, reward, grader, rewardRange } = rolloutFlags

/** What an environment is opened with. */
export const openFlags = {
  set: flag.repeated(parseAssignment, '--set <key=value>', 'an argument of the environment'),
  tasksFile: flag.text('--tasks-file <file>', 'JSON Lines with a task per line: {"prompt":"…","answer":"…"}'),
  maxTurns: flag.integer(1, 1000)(
    '--max-turns <n>',
    `turns of the model, 1 to 1000; default ${ENVIRONMENT_DEFAULTS.maxTurns}`,
  ),
  turnRewards: flag.switch(
    '--turn-rewards',
    'each turn is judged by what is still to be earned, not by the reward of the whole episode',
  ),
  seed: flag.integer(0)('--seed <n>', 'of tasks and rollouts: the same seed makes the same; default 0', {
    default: ENVIRONMENT_DEFAULTS.seed,
  }),
  env: flag.repeated(parseVariable, '--env <KEY[=value]>', 'a variable its processes see beside PATH, HOME and LANG'),
  python: flag.text('--python <path>', 'an interpreter that has the package'),
  install: flag.switch(
    '--install',
    'fetch missing Python packages into the data folder; without it nothing is fetched',
  ),
  isolate: flag.switch(
    '--isolate',
    'walls around its processes: no network, no other process, none of our folders (Linux)',
  ),
  stepTimeout: flag.duration('--step-timeout <time>', 'for each question to the environment; default 60s', {
    default: ENVIRONMENT_DEFAULTS.stepTimeoutMs,
    isAdvanced: true,
  }),
}

/** How episodes are played and judged. */
export const episodeFlags = {
  reward: { ...reward, summary: "judges in place of the environment: compare with the task's answer, or your own" },
  grader: { ...grader, summary: 'judges in place of the environment: a grader, a JSON file in OpenAI’s form' },
  rewardRange,
  temperature,
  maxTokens: { ...maxTokens, summary: 'tokens of the longest answer; default 256' },
  episodeTimeout: flag.duration('--episode-timeout <time>', 'for each episode; default 600s', {
    default: ENVIRONMENT_DEFAULTS.episodeTimeoutMs,
    isAdvanced: true,
  }),
  concurrency: flag.integer(1, 512)(
    '--concurrency <n>',
    `episodes side by side, 1 to 512; default ${SERVICE_DEFAULTS.maxConcurrentSequences}`,
    { default: SERVICE_DEFAULTS.maxConcurrentSequences, isAdvanced: true },
  ),
  retries: flag.integer(0, 10)('--retries <n>', 'tries after a failed episode, 0 to 10; default 0', {
    default: 0,
    isAdvanced: true,
  }),
}

type Values<F> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never }
export type OpenFlags = Values<typeof openFlags>
export type EpisodeFlags = Values<typeof episodeFlags>

/** `KEY=value`, or `KEY` for the caller's own. */
function parseVariable(text: string): readonly [string, string | undefined] {
  const at = text.indexOf('=')
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

/** Opens what the address names with what the flags say. */
export async function openByFlags(
  { environment, output }: Pick<CommandContext, 'environment' | 'output'>,
  address: string,
  flags: OpenFlags & Partial<Pick<EpisodeFlags, 'reward' | 'grader'>>,
): Promise<EnvironmentSource> {
  const variables = flags.env.map(([name, value]) => {
    const found = value ?? environment[name]
    if (found !== undefined) return [name, found] as const
    throw new UsageError('invalid_argument', `--env ${name}: there is no variable of that name here`, {
      param: '--env',
      hint: `--env ${name}=value sets it`,
    })
  })
  return await openEnvironment(address, {
    settings: Object.fromEntries(flags.set),
    seed: flags.seed,
    stepTimeoutMs: flags.stepTimeout,
    turnRewards: flags.turnRewards,
    install: flags.install,
    isolate: flags.isolate,
    variables: Object.fromEntries(variables),
    isJudgedElsewhere: flags.reward !== undefined || flags.grader !== undefined,
    dataDir: resolvePaths(environment).dataDir,
    say: (sentence) => output.status(sentence),
    ...(flags.maxTurns === undefined ? {} : { maxTurns: flags.maxTurns }),
    ...(flags.tasksFile === undefined ? {} : { tasksFile: flags.tasksFile }),
    ...(flags.python === undefined ? {} : { python: flags.python }),
  })
}

/** Who judges, what that can be, and its name among measurements. */
export interface Judging {
  readonly judge: Judge | null
  readonly rewardRange: RewardRange | null
  readonly judgedBy: string
}

/** @param own what the environment says that it can earn */
export async function judgeByFlags(
  context: Pick<CommandContext, 'io' | 'connect' | 'environment' | 'output'>,
  { reward: program, grader: path, rewardRange: given }: Pick<EpisodeFlags, 'reward' | 'grader' | 'rewardRange'>,
): Promise<(own: RewardRange | null) => Judging> {
  const said = given ?? null
  if (program !== undefined && path !== undefined) {
    throw new UsageError('conflicting_options', '--reward and --grader both judge: give one of them', {
      param: '--grader',
    })
  }
  if (program !== undefined) {
    const { score, range, identity } = await loadReward(program, said)
    return () => ({ judge: score, rewardRange: range, judgedBy: identity })
  }
  if (path !== undefined) {
    const { grader: spec, text } = await readGraderFile(path, context.io)
    const { checkPython, ...means } = graderMeans(context, {})
    await checkPython(spec)
    const judge: Judge = async (trajectory, item, signal) => {
      trajectory.reward = (await gradeTrajectory(spec, trajectory, { item, ...means, signal })).reward
    }
    return () => ({ judge, rewardRange: said, judgedBy: text })
  }
  return (own) => ({ judge: null, rewardRange: said ?? own, judgedBy: 'environment' })
}

export function samplingOf(flags: Pick<EpisodeFlags, 'temperature' | 'maxTokens'>): AskOptions {
  return { temperature: flags.temperature ?? 1, maxTokens: flags.maxTokens }
}

/** What of the flags makes a run another run. */
export function identityOf(flags: OpenFlags & EpisodeFlags): Readonly<Record<string, JsonValue>> {
  return {
    set: Object.fromEntries(flags.set),
    seed: flags.seed,
    max_turns: flags.maxTurns ?? null,
    ...(flags.turnRewards ? { turn_rewards: true } : {}),
    temperature: flags.temperature ?? 1,
    max_tokens: flags.maxTokens,
  }
}
