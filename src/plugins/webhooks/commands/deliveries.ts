/**
 * `trainyard webhooks deliveries`: what was sent to an address, and what became of it.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { WebhookDelivery } from '#contract/wire/webhooks/webhooks.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<WebhookDelivery>[] = [
  { header: 'type', get: (delivery) => delivery.type, canShrink: true },
  { header: 'status', kind: 'status', get: (delivery) => delivery.status },
  { header: 'attempts', get: (delivery) => String(delivery.attempts), rank: 2 },
  { header: 'answer', get: describeAnswer, canShrink: true, rank: 1 },
  { header: 'next', kind: 'time', get: (delivery) => delivery.next_attempt_at, rank: 4 },
  { header: 'created', kind: 'time', get: (delivery) => delivery.created_at, rank: 3 },
  { header: 'id', get: (delivery) => delivery.id },
]

/** What the receiver said to the last attempt, or why it said nothing. */
function describeAnswer(delivery: WebhookDelivery): string {
  if (delivery.error !== null) return delivery.error
  return delivery.response_status === null ? '' : String(delivery.response_status)
}

export const webhookDeliveries = defineCommand({
  path: ['webhooks', 'deliveries'],
  summary: 'Show what was sent to a webhook',
  details: 'Newest first, kept for 30 days. Failed ones are tried again by themselves for two days.',
  examples: [
    ['trainyard webhooks deliveries 0199f3a2-0000-7000-8000-000000000000', 'with what the receiver answered'],
    ['trainyard webhooks deliveries 0199f3a2-0000-7000-8000-000000000000 --json', 'with what was sent'],
  ],
  args: { webhook: argument.required('id of a webhook') },
  flags: pageFlags,
  exits: ['not_found'],
  next: ['trainyard webhooks redeliver <webhook> <delivery>'],
  async run({ connect, output, args, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const list = (query: { limit?: number | undefined; after?: string | undefined }) =>
      client.webhooks.deliveries(args.webhook, query, { signal })
    const page = flags.all ? await collectPages(list, { after }) : await list({ limit, after })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand(`webhooks deliveries ${args.webhook}`, page, { '--limit': limit }),
      empty: 'nothing was sent yet',
    })
  },
})
