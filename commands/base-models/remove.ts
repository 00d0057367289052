/**
 * `trainyard base-models remove`: takes base models that were added from a running server, with what was downloaded.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'

export const removeBaseModels = defineCommand({
  path: ['base-models', 'remove'],
  summary: 'Remove base models that were added',
  details:
    'Refused while models are trained from it, and for base models that the server was started with. Of a linked folder only the link goes. A download that runs is ended.',
  examples: [
    ['trainyard base-models remove Qwen/Qwen2.5-0.5B-Instruct', 'after asking'],
    ['trainyard base-models remove my-model --yes', 'without asking'],
  ],
  args: { name: argument.many('names') },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found', 'conflict'],
  next: ['trainyard base-models list'],
  async run({ connect, output, prompts, args, flags, signal }) {
    const client = await connect()
    const names = [...new Set(args.name)]
    const models = []
    for (const name of names) models.push(await client.baseModels.get(name, { signal }))
    const isFetchedAgain = models.some((model) => model.source === 'hub')
    const question = `Remove ${names.join(', ')}${isFetchedAgain ? ' and delete what was downloaded' : ''}?`
    if (!flags.yes && !(await prompts.confirm(question, '--yes'))) {
      throw new UsageError('not_confirmed', 'nothing was removed')
    }
    const removed: string[] = []
    for (const name of names) removed.push((await client.baseModels.delete(name, { signal })).id)
    output.result({ deleted: removed }, `Removed ${removed.join(', ')}`, removed)
  },
})
