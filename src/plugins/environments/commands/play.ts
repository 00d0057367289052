/**
 * `trainyard env eval` and `trainyard env rollout`: episodes of a model as it is, measured or kept to train on.
 */

import { stringifyExact } from '#base/json/exact-json.js'
import { randomSeed } from '#base/util/rng.js'
import { writeWhole } from '#base/write-whole.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { command } from '#contract/wire/command-words.js'
import { sayOfGroups, sayOfMeasured } from '#plugins/rl-library/diagnose.js'
import { gather } from '#plugins/rl-library/gather.js'
import { ApiError } from '#sdk/client/errors.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { askedModel, createEpisodes } from '../episode.js'
import { measurementOf, summarizeGroups } from '../groups.js'
import type { EnvironmentDescription, EnvironmentTask } from '../source.js'
import { openTasks } from '../tasks.js'
import {
  type EpisodeFlags,
  episodeFlags,
  type Judging,
  judgeByFlags,
  type OpenFlags,
  openByFlags,
  openFlags,
  samplingOf,
} from './flags.js'

const served = argument.required('id, name, project/name, :stepN if wanted, or a base model', { asks: 'served' })
const address = argument.required('address of an environment: trainyard env list')

interface Played {
  readonly groups: readonly TrajectoryGroup[]
  readonly description: EnvironmentDescription
  readonly tasks: readonly EnvironmentTask[]
  readonly judging: Judging
}

async function playTasks(
  context: CommandContext & {
    readonly flags: OpenFlags & EpisodeFlags & { readonly count: number; readonly tasks: number }
  },
  { where, model, isHeldOut }: { readonly where: string; readonly model: string; readonly isHeldOut: boolean },
): Promise<Played> {
  const { io, output, flags, clock, signal } = context
  const judgeOf = await judgeByFlags(context, flags)
  const source = await openByFlags(context, where, flags)
  const progress = startProgress(io, output.mode === 'human', 'opening the environment')
  try {
    const description = await source.describe(signal)
    const judging = judgeOf(description.rewardRange)
    const feed = await openTasks(source, description, {
      seed: flags.seed,
      measured: isHeldOut ? flags.tasks : Math.min(32, flags.tasks),
      isPlayed: true,
      signal,
    })
    const tasks = isHeldOut ? feed.heldOut : await feed.train(1, flags.tasks, signal)
    const episodes = createEpisodes({
      ...{ source, description, ...judging, seed: flags.seed, signal, clock, episodeTimeoutMs: flags.episodeTimeout },
      model: askedModel(await context.connect(), model, samplingOf(flags)),
      run: `${where} ${randomSeed()}`,
      onWarning: (warning) => output.warning(warning),
    })
    const groups = await gather(episodes.plans(tasks, flags.count, isHeldOut ? 'held out' : 'rollout'), {
      concurrency: Math.min(flags.concurrency, source.mostAtOnce?.() ?? flags.concurrency),
      retries: flags.retries,
      signal: episodes.signal,
      onProgress: ({ done, total, failed, reward }) =>
        progress.update(
          `${done} of ${total} episodes, reward ${reward?.toFixed(3) ?? '-'}${failed === 0 ? '' : `, ${failed} failed`}`,
        ),
    })
    return { groups, description, tasks, judging }
  } finally {
    progress.stop()
    await source.close()
  }
}

function factsOf({ output }: Pick<CommandContext, 'output'>, groups: readonly TrajectoryGroup[]) {
  const exceptions = groups.flatMap((each) => each.exceptions)
  const [first] = exceptions
  const { reward, metrics } = summarizeGroups(groups)
  if (first !== undefined && metrics['episodes'] === 0) {
    throw new UsageError('rollouts_failed', `every episode failed: ${first.message}`, {
      hint: 'trainyard env check says what it does',
    })
  }
  if (first !== undefined)
    output.warning(`${plural(exceptions.length, 'episode')} failed, the first one: ${first.type}: ${first.message}`)
  return {
    reward,
    groups: groups.length,
    trainable_groups: groups.filter((each) => each.isTrainable).length,
    exceptions: exceptions.length,
    metrics,
  }
}

export const evalEnv = defineCommand({
  path: ['env', 'eval'],
  summary: 'Measure a model in an environment',
  details:
    'Plays tasks that env train never trains on. The means are stored as metrics of the latest checkpoint, as those of trainyard eval.',
  examples: [
    ['trainyard env eval reasoning-gym:letter_counting my-model', 'mean reward of 50 held-out tasks'],
    ['trainyard env eval ./my-env.mjs my-model -n 4 --tasks 20 --min-reward 0.8', 'exit 1 below a threshold'],
  ],
  namespace: ['project', 'entity'],
  args: { address, model: served },
  flags: {
    ...openFlags,
    ...episodeFlags,
    count: flag.integer(1, 128)('-n, --samples <count>', 'episodes per task, 1 to 128; default 1', { default: 1 }),
    tasks: flag.integer(1, 10_000)('--tasks <n>', 'held-out tasks at most; default 50', { default: 50 }),
    split: flag.text('--split <name>', 'name of the metrics; default val', { default: 'val' }),
    out: flag.text('--out <file>', 'write the groups, as JSON Lines'),
    minReward: flag.number()('--min-reward <x>', 'exit 1 when the mean reward is lower, or an episode failed'),
  },
  exits: ['not_found'],
  next: ['trainyard env train <address> <model>'],
  async prepare({ flags }) {
    if (flags.out !== undefined) await assertWritable(flags.out)
  },
  async run(context) {
    const { args, flags, output, signal } = context
    const client = await context.connect()
    const { name, model, step } = await resolveServed(context, client, args.model)
    const played = await playTasks(context, { where: args.address, model: name, isHeldOut: true })
    const { groups } = played
    if (flags.out !== undefined) await writeGroups(flags.out, groups)
    const facts = factsOf(context, groups)
    const body = {
      split: flags.split,
      measurement: measurementOf(played.tasks, {
        ...played,
        judgedBy: played.judging.judgedBy,
        sampling: samplingOf(flags),
      }),
      trajectory_groups: groups.map((each) => each.toJSON()),
    }
    const isStored =
      model !== null &&
      step === null &&
      (await client.models.log(model.id, body, { signal }).then(
        () => true,
        (error: unknown) => {
          if (!(error instanceof ApiError) || error.code !== 'other_measurement') throw error
          output.warning(`not stored: ${error.message}; --split <name> stores it beside that`)
          return false
        },
      ))
    const where = isStored ? `, stored as ${flags.split}/reward of step ${model?.step}` : ', not stored'
    output.result(
      {
        object: 'environment_eval',
        environment: played.description.name,
        model: args.model,
        ...facts,
        is_stored: isStored,
      },
      `Reward ${formatNumber(facts.reward)} over ${plural(facts.metrics['episodes'] ?? 0, 'episode')} of ${plural(facts.groups, 'task')}${where}`,
      [formatNumber(facts.reward)],
    )
    for (const finding of sayOfMeasured(groups, { shown: 0 })) output.warning(finding)
    output.hint(command`trainyard env train ${args.address} ${args.model}`)
    if (flags.minReward === undefined || (facts.exceptions === 0 && facts.reward >= flags.minReward)) return
    throw new UsageError(
      'reward_below_minimum',
      `reward ${formatNumber(facts.reward)} with ${plural(facts.exceptions, 'failed episode')}; wanted at least ${flags.minReward} and none`,
    )
  },
})

export const rolloutEnv = defineCommand({
  path: ['env', 'rollout'],
  summary: 'Play episodes of an environment, to train on',
  details: 'Groups go to standard output unless --out names a file; trainyard train rl trains on them.',
  examples: [
    [
      'trainyard env rollout reasoning-gym:letter_counting my-model --out groups.jsonl',
      'eight episodes each of 16 tasks',
    ],
    ['trainyard env rollout ./my-env.mjs my-model -n 4 | trainyard train rl my-model --file -', 'one turn of a loop'],
  ],
  namespace: ['project', 'entity'],
  args: { address, model: served },
  flags: {
    ...openFlags,
    ...episodeFlags,
    count: flag.integer(1, 128)('-n <count>', 'episodes per task, one group, 1 to 128; default 8', { default: 8 }),
    tasks: flag.integer(1, 10_000)('--tasks <n>', 'tasks to play; default 16', { default: 16 }),
    out: flag.text('--out <file>', 'where to write the groups; default -, standard output', { default: '-' }),
  },
  exits: ['not_found'],
  next: ['trainyard train rl <model> --file groups.jsonl --watch'],
  async prepare({ flags }) {
    if (flags.out !== '-') await assertWritable(flags.out)
  },
  async run(context) {
    const { args, flags, output } = context
    const client = await context.connect()
    const { name } = await resolveServed(context, client, args.model)
    const { groups } = await playTasks(context, { where: args.address, model: name, isHeldOut: false })
    const facts = factsOf(context, groups)
    for (const finding of sayOfGroups(groups, { shown: 0 })) output.warning(finding)
    const said = `${plural(facts.groups, 'group')}, ${plural(facts.metrics['episodes'] ?? 0, 'episode')}, reward ${formatNumber(facts.reward)}; rewards differ in ${facts.trainable_groups} of them`
    if (flags.out === '-') {
      output.raw(groups.map((each) => `${stringifyExact(each.toJSON())}\n`).join(''))
      return output.status(said)
    }
    await writeGroups(flags.out, groups)
    output.result({ object: 'environment_rollout', ...facts, file: flags.out }, `Wrote ${flags.out}: ${said}`, [
      flags.out,
    ])
    if (facts.trainable_groups > 0) output.hint(command`trainyard train rl ${args.model} --file ${flags.out} --watch`)
  },
})

async function writeGroups(path: string, groups: readonly TrajectoryGroup[]): Promise<void> {
  await writeWhole(
    path,
    groups.map((each) => `${stringifyExact(each.toJSON())}\n`),
  )
}
