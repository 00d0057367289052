/**
 * `trainyard models delete`: models with everything they have. Asks for the name of each.
 */

import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatBytes, plural } from '#cli/terminal/format.js'
import { collectPages } from '#sdk/client/pages.js'

export const deleteModels = defineCommand({
  path: ['models', 'delete'],
  summary: 'Delete models with all their checkpoints',
  details: 'It cannot be undone. All names are looked up before anything is deleted.',
  examples: [
    ['trainyard models delete email-agent', 'asks for the name to be typed'],
    ['trainyard models delete email-agent games/chess --yes', 'several at once, without asking'],
    ['trainyard models delete email-agent --dry-run', 'say what would go'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.many('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    yes: flag.switch('--yes', 'do not ask'),
    dryRun: flag.switch('--dry-run', 'show what would be deleted, delete nothing'),
  },
  exits: ['not_found', 'conflict'],
  async run(context) {
    const { connect, output, prompts, args, flags, signal } = context
    if (!flags.yes && !flags.dryRun && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to delete without a terminal', { param: '--yes' })
    }
    const references = args.model.map((text) =>
      parseWholeModel(text, { hint: 'trainyard checkpoints delete <model> --steps <list> deletes checkpoints' }),
    )
    const client = await connect()
    const deleted: string[] = []
    const failed: { readonly id: string; readonly message: string }[] = []
    let worst: AppError | undefined
    const models = []
    for (const reference of references) models.push(await findModel(reference, { ...context, client }))
    for (const model of models) {
      const { data } = await collectPages((query) => client.checkpoints.list(model.id, query, { signal }))
      const sizeBytes = data.reduce((sum, checkpoint) => sum + checkpoint.size_bytes, 0)
      const what = `model ${model.name} with ${plural(data.length, 'checkpoint')} (${formatBytes(sizeBytes)})`
      if (flags.dryRun) {
        output.status(`Would delete ${what}`)
        continue
      }
      if (!flags.yes) {
        output.status(`This deletes ${what}. It cannot be undone.`)
        const isSure = await prompts.confirmByName("Type the model's name to confirm:", model.name, '--yes')
        if (!isSure) throw new UsageError('not_confirmed', `nothing deleted: "${model.name}" was not typed`)
      }
      try {
        await client.models.delete(model.id, { signal })
        deleted.push(model.id)
        if (models.length > 1) output.status(`Deleted model ${model.name}`)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        failed.push({ id: model.id, message: error.message })
        worst = error
      }
    }
    const names = models.filter((model) => deleted.includes(model.id)).map((model) => model.name)
    const sentence = flags.dryRun
      ? `Nothing deleted (dry run)`
      : `Deleted ${names.length === 1 ? `model ${names[0]}` : plural(names.length, 'model')}`
    output.result(
      flags.dryRun ? { deleted, failed, would_delete: models.map((model) => model.id) } : { deleted, failed },
      sentence,
      deleted,
    )
    if (worst !== undefined) throw worst
  },
})
