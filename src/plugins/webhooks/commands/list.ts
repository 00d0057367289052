/**
 * `trainyard webhooks list`: the addresses that are told what becomes of jobs.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { Webhook } from '#contract/wire/webhooks/webhooks.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<Webhook>[] = [
  { header: 'url', kind: 'name', get: (webhook) => webhook.url, canShrink: true },
  { header: 'events', get: (webhook) => webhook.events.join(','), canShrink: true, rank: 2 },
  { header: 'project', get: (webhook) => webhook.project ?? 'all', canShrink: true, rank: 1 },
  { header: 'id', get: (webhook) => webhook.id },
]

export const listWebhooks = defineCommand({
  path: ['webhooks', 'list'],
  summary: 'List webhooks',
  details:
    'Of every project, whichever is configured; with --project only those for its events. What was sent to one: trainyard webhooks deliveries <id>.',
  examples: [
    ['trainyard webhooks list', 'oldest first'],
    ['trainyard webhooks list --json', 'as the API returns them'],
  ],
  namespace: ['project'],
  args: {},
  flags: pageFlags,
  next: ['trainyard webhooks deliveries <id>'],
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const { project } = askedNamespace(config)
    const page = flags.all
      ? await collectPages((query) => client.webhooks.list({ project, ...query }, { signal }), { after })
      : await client.webhooks.list({ project, limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('webhooks list', page, { '--limit': limit, '--project': project }),
    })
    hintConfiguredProject(config, output)
  },
})
