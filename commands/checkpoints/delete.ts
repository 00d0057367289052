/**
 * `trainyard checkpoints delete`: by step, or everything a set of rules does not keep.
 */

import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { applyKeepRules, formatSteps, parseKeepRule } from '#cli/input/checkpoint-selection.js'
import { parseSteps } from '#cli/input/parse.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatBytes, formatNumber, plural } from '#cli/terminal/format.js'
import type { Prompts } from '#cli/terminal/prompts.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import { collectPages } from '#sdk/client/pages.js'

export const deleteCheckpoints = defineCommand({
  path: ['checkpoints', 'delete'],
  summary: 'Delete checkpoints by step or by rule',
  details: 'With --keep, what any rule names stays and the rest goes; the untrained step 0 always stays.',
  examples: [
    [
      'trainyard checkpoints delete email-agent --keep latest --keep best:val/reward',
      'all but the latest and the best',
    ],
    ['trainyard checkpoints delete email-agent --steps 1,2,5-9 --yes', 'some steps, without asking'],
    ['trainyard checkpoints delete email-agent --keep last:3 --keep every:10 --dry-run', 'say what would go'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    steps: flag.custom(parseSteps)('--steps <list>', 'steps to delete, for example 1,2,5-9'),
    keep: flag.repeated(parseKeepRule, '--keep <rule>', 'latest, best:<metric>, last:<n> or every:<n>'),
    ignoreMissing: flag.switch('--ignore-missing', 'steps that do not exist are no error'),
    yes: flag.switch('--yes', 'do not ask'),
    dryRun: flag.switch('--dry-run', 'show what would be deleted, delete nothing'),
  },
  exits: ['not_found', 'conflict'],
  prepare({ flags, prompts }) {
    const isNoneGiven = flags.steps === undefined && flags.keep.length === 0
    const isAsked = isNoneGiven && prompts.canAsk
    if (!isAsked && (flags.steps === undefined) === (flags.keep.length === 0)) {
      throw new UsageError('missing_option', 'either --steps or --keep is required, not both', {
        hint: 'trainyard checkpoints delete --help',
      })
    }
    if (!flags.yes && !flags.dryRun && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to delete without a terminal', { param: '--yes' })
    }
    return { isAsked }
  },
  async run(context) {
    const { connect, output, prompts, args, flags, signal, prepared } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model, { hint: '--steps and --keep say which checkpoints' }), {
      ...context,
      client,
    })
    const { data } = await collectPages((query) => client.checkpoints.list(model.id, query, { signal }))
    const plan = applyKeepRules(data, flags.keep)
    const wanted = prepared.isAsked ? await askForSteps(prompts, data) : (flags.steps ?? plan.deleted)
    const known = new Set(data.map((checkpoint) => checkpoint.step))
    const missing = wanted.filter((step) => !known.has(step))
    if (missing.length > 0 && !flags.ignoreMissing) {
      throw new NotFoundError('checkpoint_not_found', `steps ${formatSteps(missing)} of ${model.name} do not exist`, {
        hint: `there are steps ${formatSteps([...known])}; add --ignore-missing to delete the others`,
      })
    }
    const steps = wanted.filter((step) => known.has(step))
    const sizeBytes = data.filter(({ step }) => steps.includes(step)).reduce((sum, each) => sum + each.size_bytes, 0)
    output.status(
      `Will delete ${steps.length} of ${plural(data.length, 'checkpoint')} (${formatBytes(sizeBytes)}): steps ${formatSteps(steps) || 'none'}`,
    )
    if (flags.keep.length > 0) {
      const kept = [...plan.kept].map(([step, reasons]) => `step ${step} (${reasons.join(', ')})`)
      output.status(`Keeping: ${kept.join(', ')}`)
    }
    if (flags.dryRun || steps.length === 0) {
      const json = {
        deleted_count: 0,
        not_found_steps: missing,
        ...(flags.dryRun ? { would_delete_steps: steps } : {}),
      }
      return output.result(json, flags.dryRun ? 'Nothing deleted (dry run)' : 'Nothing to delete', [])
    }
    if (!flags.yes && !(await prompts.confirm(`Delete ${plural(steps.length, 'checkpoint')}?`, '--yes'))) {
      throw new UsageError('not_confirmed', 'nothing deleted')
    }
    const reply = await client.checkpoints.delete(model.id, steps, { signal })
    const json = { ...reply, not_found_steps: [...new Set([...missing, ...reply.not_found_steps])] }
    const inUse = reply.in_use_steps ?? []
    const deleted = steps.filter((step) => !inUse.includes(step))
    output.result(json, `Deleted ${plural(reply.deleted_count, 'checkpoint')}`, deleted.map(String))
    if (inUse.length > 0) {
      throw new ConflictError('checkpoint_in_use', `steps ${formatSteps(inUse)} are being trained from and stay`, {
        hint: 'wait for the job, or cancel it',
      })
    }
  },
})

/** Newest first; step 0 always stays. */
async function askForSteps(prompts: Prompts, checkpoints: readonly Checkpoint[]): Promise<readonly number[]> {
  const choices = checkpoints
    .filter(({ step }) => step > 0)
    .sort((a, b) => b.step - a.step)
    .map(({ step, size_bytes: size, metrics }) => {
      const reward = metrics['val/reward'] ?? metrics['train/reward']
      const shown = typeof reward === 'number' ? `, reward ${formatNumber(reward)}` : ''
      return { value: step, name: `step ${step}  ${formatBytes(size)}${shown}` }
    })
  return choices.length === 0 ? [] : await prompts.selectMany('Which steps go?', choices, '--steps')
}
