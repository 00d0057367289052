/**
 * `trainyard audit list`: who changed or fetched what.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { List } from '#contract/wire/list.js'
import { pageOf } from '#sdk/client/answers.js'
import { collectPages } from '#sdk/client/pages.js'
import { anything, type Check, maybe, objectOf, text } from '#sdk/client/shape.js'
import type { AuditEvent } from '../wire.js'

const event: Check<AuditEvent> = objectOf<Omit<AuditEvent, 'object' | 'entity' | 'session_id'>>({
  id: text,
  created_at: text,
  project: maybe(text),
  key_id: text,
  action: text,
  target: anything,
  made_id: maybe(text),
  error: maybe(text),
  request_id: text,
  client: maybe(text),
})

const columns: readonly Column<AuditEvent>[] = [
  { header: 'when', kind: 'time', get: ({ created_at: at }) => at },
  { header: 'action', get: ({ action }) => action, canShrink: true },
  {
    header: 'of',
    kind: 'name',
    get: ({ target, made_id: made }) => [...Object.values(target), ...(made === null ? [] : [made])].join(' '),
    canShrink: true,
  },
  { header: 'refused', get: ({ error }) => error ?? '', rank: 1 },
  { header: 'key', kind: 'id', get: ({ key_id: id }) => id, rank: 2 },
  { header: 'from', get: ({ client }) => client ?? '', rank: 3 },
]

export const listAudit = defineCommand({
  path: ['audit', 'list'],
  summary: 'List who changed or fetched what',
  details: 'Newest first. Needs a key with scope admin, and a server that was started with --audit.',
  examples: [
    ['trainyard audit list', 'the newest'],
    [
      'trainyard audit list --action "DELETE /v1/files/{file_id}" --all --json',
      'every deleted file, as the API says it',
    ],
  ],
  args: {},
  flags: {
    ...pageFlags,
    action: flag.text('--action <endpoint>', 'only of this endpoint, as "DELETE /v1/files/{file_id}"'),
    keyId: flag.text('--key-id <id>', 'only what was asked with this key'),
  },
  next: ['trainyard keys list'],
  async run({ connect, output, flags, signal }) {
    const { http } = await connect()
    const { limit, after, action, keyId } = flags
    const list = async (page: { limit?: number | undefined; after?: string | undefined }) =>
      await http.json<List<AuditEvent>>(
        { method: 'GET', path: '/v1/preview/audit', query: { ...page, action, key_id: keyId }, signal },
        pageOf(event),
      )
    const page = flags.all ? await collectPages(list, { after }) : await list({ limit, after })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('audit list', page, { '--limit': limit, '--action': action, '--key-id': keyId }),
      empty: 'nothing was changed or fetched since this server keeps an audit log',
    })
  },
})
