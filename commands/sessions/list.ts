/**
 * `trainyard sessions list`: training sessions, newest first.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import type { Column } from '#cli/terminal/table.js'
import type { TrainingSession } from '#contract/wire/training/training-sessions.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<TrainingSession>[] = [
  { header: 'status', kind: 'status', get: (session) => session.status },
  { header: 'project', get: (session) => session.project, canShrink: true, rank: 3 },
  { header: 'base model', get: (session) => session.base_model, canShrink: true, rank: 2 },
  { header: 'steps', kind: 'number', get: (session) => session.optimizer_steps, rank: 0 },
  { header: 'waiting', kind: 'number', get: (session) => session.waiting_requests, rank: 4 },
  { header: 'last request', kind: 'time', get: (session) => session.last_request_at, rank: 1 },
  // its tail tells runs of one client apart
  { header: 'id', get: (session) => session.id },
]

export const listSessions = defineCommand({
  path: ['sessions', 'list'],
  summary: 'List training sessions: loops of clients',
  details:
    'Of every project, whichever is configured; --project shows one. A running session holds a training worker, a waiting one waits for it, a resting one takes it with its next request, a stopped one cannot go on.',
  examples: [
    ['trainyard sessions list', 'newest first'],
    ['trainyard sessions list --json', 'as the API returns them, with the reason of a stop'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: pageFlags,
  next: ['trainyard sessions end <session>'],
  async run({ connect, config, output, flags, signal }) {
    const client = await connect()
    const { limit, after } = flags
    const asked = askedNamespace(config)
    const page = flags.all
      ? await collectPages((query) => client.trainingSessions.list({ ...asked, ...query }, { signal }), { after })
      : await client.trainingSessions.list({ ...asked, limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('sessions list', page, {
        '--limit': limit,
        '--project': asked.project,
        '--entity': asked.entity,
      }),
      empty: 'no training sessions; the documentation has "Training loops of your own"',
    })
    hintConfiguredProject(config, output)
  },
})
