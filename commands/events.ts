/**
 * `trainyard events`: what happened lately on the service, or what happens now.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import type { Activity } from '#contract/wire/activity.js'
import { collectPages } from '#sdk/client/pages.js'

const columns: readonly Column<Activity>[] = [
  { header: 'type', get: (event) => event.type },
  { header: 'about', get: describe, canShrink: true },
  { header: 'project', get: (event) => event.project ?? '', rank: 1, canShrink: true },
  { header: 'time', kind: 'time', get: (event) => event.created_at },
  { header: 'id', get: (event) => event.id, rank: 2 },
]

export const events = defineCommand({
  path: ['events'],
  summary: 'Show what happens on the service: jobs, checkpoints, logs, models',
  details:
    'The last thousand events since the server was started. With --follow those that come, until Ctrl-C or the end of the server.',
  examples: [
    ['trainyard events --follow', 'everything this key may see, as it happens'],
    ['trainyard events --follow --topics job,checkpoint --json', 'JSON Lines of jobs and checkpoints'],
    ['trainyard events --model email-agent', 'what happened to one model'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {
    follow: flag.switch('--follow', 'show what comes, as it comes'),
    topics: flag.text('--topics <names>', 'of job, checkpoint, log, model, base_model, server; separated by commas'),
    model: flag.text('--model <model>', 'only about this model'),
    ...pageFlags,
  },
  exits: ['not_found'],
  async run(context) {
    const { connect, output, flags, signal } = context
    const client = await connect()
    const { limit, after, topics } = flags
    const model =
      flags.model === undefined ? undefined : await findModel(parseWholeModel(flags.model), { ...context, client })
    const filter = { topics, model_id: model?.id }
    if (flags.follow) {
      for await (const event of client.events.follow({ ...filter, after }, { signal })) {
        output.event(event, `${event.created_at}  ${event.type}  ${describe(event)}`)
      }
      return
    }
    const page = flags.all
      ? await collectPages((query) => client.events.list({ ...filter, ...query }, { signal }), { after })
      : await client.events.list({ ...filter, limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand('events', page, {
        '--topics': topics,
        '--model': flags.model,
        '--limit': limit,
      }),
      empty: 'nothing happened since the server was started',
    })
  },
})

/** The facts that a line has room for. */
function describe({ type, data }: Activity): string {
  if (type === 'ready') return 'from here on'
  if (type === 'reset') return 'events were missed; read again what you need'
  return Object.entries(data ?? {})
    .filter(([, value]) => value !== null && typeof value !== 'object')
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(' ')
}
