/**
 * `trainyard keys list`: the keys of the entity, without the keys themselves.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { ApiKey } from '#contract/wire/access/keys.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<ApiKey>[] = [
  {
    header: 'name',
    kind: 'name',
    get: (key) => (key.is_current ? `${key.name} (in use)`.trim() : key.name),
    canShrink: true,
  },
  { header: 'key', get: (key) => `${key.key_prefix}…` },
  { header: 'scope', get: (key) => key.scope },
  { header: 'project', get: (key) => key.project ?? 'all', canShrink: true, rank: 1 },
  { header: 'last used', kind: 'time', get: (key) => key.last_used_at, rank: 2 },
  { header: 'expires', get: (key) => key.expires_at ?? 'never', canShrink: true },
  { header: 'id', kind: 'id', get: (key) => key.id },
]

export const listKeys = defineCommand({
  path: ['keys', 'list'],
  summary: 'List API keys',
  details:
    'Needs a key with scope admin. Of every project, whichever is configured; with --project only keys bound to that project.',
  examples: [
    ['trainyard keys list', 'every key of the entity, oldest first'],
    ['trainyard keys list --json', 'as the API returns them'],
  ],
  namespace: ['project'],
  args: {},
  flags: pageFlags,
  next: ['trainyard keys revoke <key>'],
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const { project } = askedNamespace(config)
    const page = flags.all
      ? await collectPages((query) => client.keys.list({ project, ...query }, { signal }), { after })
      : await client.keys.list({ project, limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('keys list', page, { '--limit': limit, '--project': project }),
    })
    hintConfiguredProject(config, output)
  },
})
