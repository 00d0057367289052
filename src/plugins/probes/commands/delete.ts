/**
 * `trainyard probes delete`: prompts that are watched no longer.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { findProbe, PROBE_ARGUMENT } from './probe-answers.js'

export const deleteProbe = defineCommand({
  path: ['probes', 'delete'],
  summary: 'Watch a prompt no longer, and forget its answers',
  details: 'Answers that wait are dropped.',
  examples: [
    ['trainyard probes delete email-agent 1', 'the first of the list'],
    ['trainyard probes delete email-agent 0199f3a2-0000-7000-8000-000000000000', 'by its id'],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }),
    prompt: argument.required(PROBE_ARGUMENT),
  },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard probes list <model>'],
  async run(context) {
    const { connect, output, args, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const probe = await findProbe(client, model, args.prompt, signal)
    const deleted = await client.probes.delete(model.id, probe.id, { signal })
    output.result(deleted, `Deleted ${deleted.id}`, [deleted.id])
  },
})
