/**
 * `trainyard models keep`: which checkpoints of a model stay, and which the rule deletes.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'

export const keepCheckpoints = defineCommand({
  path: ['models', 'keep'],
  summary: 'Say which checkpoints of a model stay',
  details:
    'The newest one stays always, and so do those that somebody saved under a name, published or marked. The others go with the next sweep of the server; their files stay for its grace.',
  examples: [
    ['trainyard models keep email-agent', 'the rule, and what it deletes'],
    ['trainyard models keep email-agent --rule "last 5, best val/reward, every 10"', 'all that some part names stays'],
    ['trainyard models keep email-agent --rule all', 'delete none, whatever the server says'],
    ['trainyard models keep email-agent --inherit', 'the rule of the server from now on'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    rule: flag.text('--rule <rule>', 'all, or parts of "last 5, best val/reward, every 10"'),
    inherit: flag.switch('--inherit', 'drop the rule of the model: that of the server holds'),
  },
  exits: ['not_found'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    if (flags.inherit && flags.rule !== undefined)
      throw new UsageError('invalid_argument', 'choose --rule or --inherit')
    const client = await connect()
    const reference = parseWholeModel(args.model, { hint: 'trainyard checkpoints delete <model> deletes steps' })
    const { id } = await findModel(reference, { ...context, client })
    const isSet = flags.inherit || flags.rule !== undefined
    const view = isSet
      ? await client.models.setKeepRule(id, flags.rule ?? null, { signal })
      : await client.models.keepRule(id, { signal })
    output.record(view, id, [
      ['Rule', view.rule ?? `${view.server_rule}   (the server's)`],
      ['Deletes', view.drops.length === 0 ? 'nothing' : `steps ${view.drops.join(', ')}`],
      ['Optimizers', `of the newest ${view.keep_optimizers} checkpoints`],
    ])
  },
})
