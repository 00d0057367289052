/**
 * `trainyard webhooks delete`: addresses that are told nothing any more.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { plural } from '#cli/terminal/format.js'

export const deleteWebhooks = defineCommand({
  path: ['webhooks', 'delete'],
  summary: 'Delete webhooks',
  details: 'Messages that are still to be sent to them are dropped.',
  examples: [
    ['trainyard webhooks delete 0199f3a2-0000-7000-8000-000000000000', 'by its id'],
    ['trainyard webhooks delete 0199f3a2-0000-7000-8000-000000000000 -q', 'and print only its id'],
  ],
  args: { webhook: argument.many('id of a webhook') },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard webhooks list'],
  async run({ connect, output, args, signal }) {
    const client = await connect()
    const ids: string[] = []
    for (const id of args.webhook) ids.push((await client.webhooks.delete(id, { signal })).id)
    output.result({ deleted: ids }, `Deleted ${plural(ids.length, 'webhook')}`, ids)
  },
})
