/**
 * `trainyard webhooks create`: an address that is told what becomes of jobs.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { askedNamespace } from '#cli/command/page-flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { WEBHOOK_EVENTS, type WebhookEvent } from '#contract/wire/webhooks/webhook-words.js'

export const createWebhook = defineCommand({
  path: ['webhooks', 'create'],
  summary: 'Have events sent to an address',
  details: `The signing secret is printed once; requests are signed as Standard Webhooks has it. Events: ${WEBHOOK_EVENTS.join(', ')}. With --project only events of that project are sent.`,
  examples: [
    ['trainyard webhooks create https://example.com/hooks', 'all events'],
    ['trainyard webhooks create https://example.com/hooks --events training_job.failed', 'only failures'],
  ],
  namespace: ['project'],
  args: { url: argument.required('https address') },
  flags: { events: flag.text('--events <types>', 'types of events, separated by commas; default all') },
  next: ['trainyard webhooks list'],
  async run({ connect, config, output, args, flags, signal }) {
    const events = flags.events?.split(',').map((text) => readEvent(text.trim()))
    const { project } = askedNamespace(config)
    const client = await connect()
    const created = await client.webhooks.create({ url: args.url, events, project }, { signal })
    output.result(created, created.secret, [created.id])
  },
})

function readEvent(text: string): WebhookEvent {
  const known = WEBHOOK_EVENTS.find((event) => event === text)
  if (known !== undefined) return known
  throw new UsageError('invalid_value', `--events must name ${WEBHOOK_EVENTS.join(', ')}, got "${text}"`, {
    param: '--events',
  })
}
