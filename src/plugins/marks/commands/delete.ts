/**
 * `trainyard marks delete`: deletes marks.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'

export const deleteMarks = defineCommand({
  path: ['marks', 'delete'],
  summary: 'Delete marks',
  details: 'The trajectories they stand on, and files that were made of them, stay.',
  examples: [
    ['trainyard marks delete email-agent 0199f3a2-0000-7000-8000-000000000000', 'one'],
    [
      'trainyard marks delete email-agent 0199f3a2-0000-7000-8000-000000000000 --yes',
      'without asking; marks list -q prints ids',
    ],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }),
    mark: argument.many('id of a mark'),
  },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found'],
  prepare({ flags, prompts }) {
    if (flags.yes || prompts.canAsk) return
    throw new UsageError('input_required', '--yes is required to delete without a terminal', { param: '--yes' })
  },
  async run(context) {
    const { connect, output, prompts, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const what = plural(args.mark.length, 'mark')
    if (!flags.yes && !(await prompts.confirm(`Delete ${what} of ${model.name}?`, '--yes'))) {
      throw new UsageError('not_confirmed', 'nothing deleted')
    }
    const ids: string[] = []
    for (const id of args.mark) ids.push((await client.marks.delete(model.id, id, { signal })).id)
    output.result({ deleted: ids }, `Deleted ${what}`, ids)
  },
})
