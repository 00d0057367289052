/**
 * `trainyard models note`: what people should know about a model, and words to find it by.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'

export const noteModel = defineCommand({
  path: ['models', 'note'],
  summary: 'Write a description and tags of a model',
  details: 'Without a flag it shows them. Both stand in the list of the page, whose search finds them.',
  examples: [
    ['trainyard models note email-agent --text "Asks back; reward v2"', 'a description'],
    ['trainyard models note email-agent --tag best --tag v2', 'these tags, in place of those it had'],
    ['trainyard models note email-agent --clear', 'nothing any more'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    text: flag.text('--text <text>', 'the description, at most 2000 characters'),
    tag: flag.repeated((text) => text, '--tag <word>', 'a tag, at most 40 characters; repeatable'),
    clear: flag.switch('--clear', 'take description and tags away'),
  },
  exits: ['not_found'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const { id, name } = await findModel(parseWholeModel(args.model), { ...context, client })
    const isSet = flags.text !== undefined || flags.tag.length > 0
    if (flags.clear && isSet) throw new UsageError('invalid_argument', 'choose --clear, or --text and --tag')
    const before = flags.clear ? { description: '', tags: [] } : await client.models.note(id, { signal })
    const description = flags.text ?? before.description
    const tags = [...(flags.tag.length > 0 ? flags.tag : before.tags)]
    const note = await (isSet || flags.clear
      ? client.models.setNote(id, { description, tags }, { signal })
      : client.models.note(id, { signal }))
    output.record(note, id, [
      ['Model', name],
      ['Description', note.description === '' ? 'none' : note.description],
      ['Tags', note.tags.length === 0 ? 'none' : note.tags.join(', ')],
    ])
  },
})
