/**
 * `trainyard sessions end`: ends training sessions, which cannot go on afterwards.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'

export const endSessions = defineCommand({
  path: ['sessions', 'end'],
  summary: 'End training sessions',
  details:
    'What waits fails with an error that its client raises, the worker is given back, and later requests are refused. What was saved stays, and a client can go on from it.',
  examples: [
    ['trainyard sessions end 01a21fc8-fe36-70c8-bf73-cb71d23aa227:train:0', 'asks first, on a terminal'],
    ['trainyard sessions end 01a21fc8-fe36-70c8-bf73-cb71d23aa227:train:0 --yes', 'without asking'],
  ],
  args: { session: argument.many('ids of sessions') },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found'],
  async run({ connect, output, prompts, args, flags, signal }) {
    if (!flags.yes && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to end sessions without a terminal', { param: '--yes' })
    }
    const client = await connect()
    const what = args.session.length === 1 ? `session ${args.session[0]}` : plural(args.session.length, 'session')
    if (!flags.yes && !(await prompts.confirm(`End ${what}?`, '--yes'))) {
      throw new UsageError('not_confirmed', 'nothing ended')
    }
    const ids: string[] = []
    for (const id of args.session) ids.push((await client.trainingSessions.end(id, { signal })).id)
    output.result({ ended: ids }, `Ended ${plural(ids.length, 'session')}`, ids)
  },
})
