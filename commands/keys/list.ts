/**
 * `trainyard keys list`: the keys of the entity, without the keys themselves.
 */
import { collectPages } from '#api/client/pages.js'
import type { ApiKey } from '#api/wire/access/keys.js'
import { defineCommand } from '#cli/command/define-command.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'

const columns: readonly Column<ApiKey>[] = [
  { header: 'name', kind: 'name', get: (key) => (key.is_current ? `${key.name} (in use)`.trim() : key.name) },
  { header: 'key', get: (key) => `${key.key_prefix}…` },
  { header: 'scope', get: (key) => key.scope },
  { header: 'project', get: (key) => key.project ?? 'all', canShrink: true },
  { header: 'last used', kind: 'time', get: (key) => key.last_used_at },
  { header: 'expires', get: (key) => key.expires_at ?? 'never', canShrink: true },
  { header: 'id', kind: 'id', get: (key) => key.id },
]

export const listKeys = defineCommand({
  path: ['keys', 'list'],
  summary: 'List API keys',
  details: 'Needs a key with scope admin.',
  examples: [
    ['trainyard keys list', 'every key of the entity, oldest first'],
    ['trainyard keys list --json', 'as the API returns them'],
  ],
  args: {},
  flags: pageFlags,
  next: ['trainyard keys revoke <key>'],
  async run({ connect, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const page = flags.all
      ? await collectPages((query) => client.keys.list(query, { signal }), { after })
      : await client.keys.list({ limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('keys list', page, { '--limit': limit }),
    })
  },
})
