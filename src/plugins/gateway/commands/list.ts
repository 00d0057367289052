/**
 * `trainyard routes list`: addresses that pass calls on.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import { collectPages } from '#sdk/client/pages.js'
import type { Route } from '../wire.js'
import { createRouteCalls } from './calls.js'

const columns: readonly Column<Route>[] = [
  { header: 'name', kind: 'name', get: ({ name }) => name },
  { header: 'upstream', get: ({ upstream }) => upstream, canShrink: true, rank: 1 },
  { header: 'calls', get: ({ calls }) => String(calls) },
  { header: 'lost', get: ({ lost_calls: lost }) => String(lost), rank: 2 },
  { header: 'id', get: ({ id }) => id, rank: 3 },
]

export const listRoutesCommand = defineCommand({
  path: ['routes', 'list'],
  summary: 'List routes of the gateway, newest first',
  details: 'Calls are those that passed on; lost are those of them that should have been recorded and were not.',
  examples: [
    ['trainyard routes list', 'newest first'],
    ['trainyard routes list --json', 'as the API returns them'],
  ],
  args: {},
  flags: pageFlags,
  next: ['trainyard routes get <name>'],
  async run({ connect, output, flags, signal }) {
    const { list } = createRouteCalls(await connect(), signal)
    const { limit, after } = flags
    const page = flags.all ? await collectPages(list, { after }) : await list({ limit, after })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('routes list', page, { '--limit': limit }),
      empty: 'there is no route yet: trainyard routes create',
    })
  },
})
