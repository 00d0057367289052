/**
 * `trainyard webhooks redeliver`: sends messages again, for a receiver that was away or lost them.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { plural } from '#cli/terminal/format.js'

export const redeliverWebhook = defineCommand({
  path: ['webhooks', 'redeliver'],
  summary: 'Send messages of a webhook again',
  details: 'Each is sent as it was, under the same webhook-id, so that a receiver can tell that it had it before.',
  examples: [
    [
      'trainyard webhooks redeliver 0199f3a2-0000-7000-8000-000000000000 0199f3a3-0000-7000-8000-000000000000',
      'one delivery',
    ],
    [
      'trainyard webhooks redeliver 0199f3a2-0000-7000-8000-000000000000 0199f3a3-0000-7000-8000-000000000000 -q',
      'and print only the id of the new one',
    ],
  ],
  args: { webhook: argument.required('id of a webhook'), delivery: argument.many('id of a delivery') },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard webhooks deliveries <webhook>'],
  async run({ connect, output, args, signal }) {
    const client = await connect()
    const ids: string[] = []
    for (const id of args.delivery) ids.push((await client.webhooks.redeliver(args.webhook, id, { signal })).id)
    output.result({ deliveries: ids }, `Sending ${plural(ids.length, 'message')} again`, ids)
  },
})
