/**
 * `trainyard webhooks test`: sends a test message, to see whether it arrives and its signature is checked.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { command } from '#contract/wire/command-words.js'
import { TEST_EVENT } from '#contract/wire/webhooks/webhook-words.js'

export const testWebhook = defineCommand({
  path: ['webhooks', 'test'],
  summary: 'Send a test message to a webhook',
  details: `Its type is ${TEST_EVENT}; it is signed, tried again and noted like any other, whatever events the webhook is for.`,
  examples: [
    ['trainyard webhooks test 0199f3a2-0000-7000-8000-000000000000', 'then see what the receiver said'],
    ['trainyard webhooks test 0199f3a2-0000-7000-8000-000000000000 -q', 'and print only the id of the delivery'],
  ],
  args: { webhook: argument.required('id of a webhook') },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard webhooks deliveries <webhook>'],
  async run({ connect, output, args, signal }) {
    const client = await connect()
    const delivery = await client.webhooks.test(args.webhook, { signal })
    output.result(delivery, 'Sending a test message', [delivery.id])
    output.hint(command`trainyard webhooks deliveries ${args.webhook}`)
  },
})
