/**
 * `trainyard loops list`: training that the server goes through step by step.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import { collectPages } from '#sdk/client/pages.js'
import type { Loop } from '../wire.js'
import { createLoopCalls } from './loop-calls.js'

const rewardOf = ({ evaluations }: Loop): string => evaluations.at(-1)?.valid_reward.toFixed(3) ?? ''

const columns: readonly Column<Loop>[] = [
  { header: 'status', kind: 'status', get: ({ status }) => status },
  { header: 'step', get: ({ step, steps }) => `${step}/${steps}` },
  { header: 'phase', get: ({ phase }) => phase ?? '', rank: 2 },
  { header: 'reward', get: rewardOf, rank: 1 },
  { header: 'created', kind: 'time', get: ({ created_at: created }) => created, rank: 3 },
  { header: 'id', get: ({ id }) => id },
]

export const listLoopsCommand = defineCommand({
  path: ['loops', 'list'],
  summary: 'List loops, newest first',
  details: 'The reward is that of the last evaluation.',
  examples: [
    ['trainyard loops list', 'newest first'],
    ['trainyard loops list --json', 'as the API returns them'],
  ],
  args: {},
  flags: pageFlags,
  next: ['trainyard loops watch <id>'],
  async run({ connect, output, flags, signal }) {
    const { list } = createLoopCalls(await connect(), signal)
    const { limit, after } = flags
    const page = flags.all ? await collectPages(list, { after }) : await list({ limit, after })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('loops list', page, { '--limit': limit }),
      empty: 'there is no loop yet: trainyard loops create',
    })
  },
})
