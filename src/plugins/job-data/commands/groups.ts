/**
 * `trainyard jobs groups`: the trajectory groups a job trained on, with rewards, advantages, and what did not train.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { Column } from '#cli/terminal/table.js'
import { GROUP_ORDERS } from '#contract/wire/training/rollout-words.js'
import type { RolloutGroup, Spread } from '#contract/wire/training/rollouts.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<RolloutGroup>[] = [
  { header: 'group', kind: 'number', get: (group) => group.index },
  { header: 'prompt', get: (group) => group.prompt_preview, canShrink: true },
  { header: 'n', kind: 'number', get: (group) => group.trajectories },
  { header: 'trained', kind: 'number', get: (group) => group.trained },
  { header: 'mean', kind: 'number', get: (group) => group.mean_reward },
  { header: 'std', kind: 'number', get: (group) => group.reward_std_dev },
  { header: 'advantage', get: (group) => between(group.advantage) },
  { header: 'tokens', get: (group) => between(group.tokens), rank: 2 },
  { header: 'entropy', kind: 'number', get: (group) => group.entropy, rank: 3 },
  { header: 'left out', get: (group) => group.left_out },
]

export const jobGroups = defineCommand({
  path: ['jobs', 'groups'],
  summary: 'List the trajectory groups a job trained on',
  details: 'Of jobs by reinforcement learning, for a time after their end (serve --keep-training-data).',
  examples: [
    ['trainyard jobs groups --sort=-reward_std_dev', 'of the newest job, where members differ most'],
    ['trainyard jobs groups 4c1d009c --left-out', 'those of which nothing trained, and why'],
    ['trainyard jobs groups 4c1d009c --min-reward 1', 'those with a full reward'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: {
    sort: flag.choice(GROUP_ORDERS)('--sort <order>', `${GROUP_ORDERS.join(', ')}; default index`),
    minReward: flag.number()('--min-reward <n>', 'only groups with a reward of at least this'),
    maxReward: flag.number()('--max-reward <n>', 'only groups with a reward of at most this'),
    leftOut: flag.switch('--left-out', 'only groups of which nothing trained'),
    ...pageFlags,
  },
  exits: ['not_found'],
  next: ['trainyard jobs trajectory <job> <group> <trajectory>'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const jobId = await resolveJobId(context, client, args.job)
    const { limit, after, sort, minReward, maxReward } = flags
    const chosen = {
      sort,
      min_reward: minReward,
      max_reward: maxReward,
      ...(flags.leftOut ? { trained: 'false' as const } : {}),
    }
    const first = await client.rollouts.groups(jobId, { ...chosen, limit, after }, { signal })
    const page = flags.all
      ? await collectPages((query) => client.rollouts.groups(jobId, { ...chosen, ...query }, { signal }), { after })
      : first
    const given = { '--sort': sort, '--min-reward': minReward, '--max-reward': maxReward, '--limit': limit }
    const command = `jobs groups ${jobId}${flags.leftOut ? ' --left-out' : ''}`
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand(command, page, given),
      empty: 'no group is like this',
    })
    const { group_count: groups, trajectory_count: all, trained_count: trained } = first
    const { unnoted_count: unnoted, untrained_count: untrained = 0 } = first
    output.status(`${groups} groups, ${trained} of ${all} trajectories trained`)
    if (unnoted > 0)
      output.warning(
        `of ${plural(unnoted, 'sequence')} no tokens are noted: there were too many, or an earlier attempt trained them`,
      )
    if (untrained > 0)
      output.warning(
        `${plural(untrained, 'sequence')} of them did not train: the job ended before ${untrained === 1 ? 'its' : 'their'} step`,
      )
  },
})

function between(spread: Spread | undefined): string | null {
  return spread === null || spread === undefined ? null : `${formatNumber(spread.min)} … ${formatNumber(spread.max)}`
}
