/**
 * `trainyard routes delete`: routes, with all of their calls.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import { createRouteCalls } from './calls.js'

export const deleteRoutes = defineCommand({
  path: ['routes', 'delete'],
  summary: 'Delete routes with all of their calls',
  details: 'It cannot be undone. Programs that use the address are refused from then on.',
  examples: [
    ['trainyard routes delete tickets', 'asks for the name to be typed'],
    ['trainyard routes delete tickets --yes', 'without asking'],
  ],
  args: { route: argument.many('name or id of a route') },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found'],
  next: ['trainyard routes list'],
  async run({ connect, output, prompts, args, flags, signal }) {
    if (!flags.yes && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to delete without a terminal', { param: '--yes' })
    }
    const calls = createRouteCalls(await connect(), signal)
    const ids: string[] = []
    for (const reference of args.route) {
      const { id, name, recorded } = await calls.get(reference)
      if (!flags.yes) {
        output.status(
          `This deletes route ${name} with ${plural(recorded.calls, 'recorded call')}. It cannot be undone.`,
        )
        const isSure = await prompts.confirmByName("Type the route's name to confirm:", name, '--yes')
        if (!isSure) throw new UsageError('not_confirmed', `nothing deleted: "${name}" was not typed`)
      }
      ids.push((await calls.delete(id)).id)
    }
    output.result({ deleted: ids }, `Deleted ${plural(ids.length, 'route')}`, ids)
  },
})
