/**
 * `trainyard train dpo`: uploads preference pairs and trains on them as one job.
 */

import type { JsonObject } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import type { ColumnMap } from '#cli/input/column-map.js'
import { checkLabelled, checkPreferences } from '#cli/input/conversation-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { plural } from '#cli/terminal/format.js'
import {
  assertOneMode,
  dataFlags,
  dataSources,
  hyperparameterFlags,
  modeFlags,
  parseTrainedModel,
  trainedModel,
  validationFlags,
} from '#cli/training/flags.js'
import { optionFlags } from '#cli/training/option-flags.js'
import {
  addSizeDefaults,
  collectHyperparameters,
  openRows,
  submitJob,
  toRowsRequest,
} from '#cli/training/submission.js'

/** Rows of other trainers are converted where that is plain. */
const readerOf = ({ loss_type: loss }: JsonObject, map: ColumnMap | undefined) => {
  const isLabelled = loss === 'kto'
  return {
    kind: 'preference',
    check: isLabelled ? checkLabelled : checkPreferences,
    keepsLabels: isLabelled,
    map,
  } as const
}

export const trainDpo = defineCommand({
  path: ['train', 'dpo'],
  summary: 'Train a model on preferred and rejected answers',
  details:
    'Rows are {"prompt", "chosen", "rejected"}, as texts or as lists of messages; those of other trainers are converted where that is plain; --loss-type kto takes single answers, {"prompt", "completion", "label"}. The reference is the checkpoint the job starts from unless --reference-step or --reference-free says otherwise; the losses orpo and simpo have none. Named flags override --set, which overrides --config.',
  examples: [
    ['trainyard train dpo email-agent --file pairs.jsonl --watch', 'upload, submit, follow, exit with the outcome'],
    ['trainyard train dpo email-agent --file pairs.jsonl --beta 0.3 --label-smoothing 0.1', 'chosen hyperparameters'],
    ['trainyard train dpo email-agent --file pairs.jsonl --reference-step 0', 'compared with the base model'],
    [
      'trainyard train dpo email-agent --file pairs.jsonl --loss-type orpo',
      'no reference, with cross-entropy on what is preferred',
    ],
    ['trainyard train dpo email-agent --file labelled.jsonl --loss-type kto', 'single answers, each good or bad'],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    ...dataFlags('preference pairs'),
    ...optionFlags('dpo'),
    ...validationFlags('pairs'),
    ...modeFlags,
    ...hyperparameterFlags('config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    const sources = dataSources(flags, 'preference pairs')
    assertOneMode(flags)
    const hyperparameters = await collectHyperparameters(context, 'dpo', flags)
    const reader = readerOf(hyperparameters, flags.map)
    return {
      rows: await openRows(context, sources.rows, reader),
      validation: await openRows(context, sources.validation, reader),
      hyperparameters,
    }
  },
  async run(context) {
    const { connect, args, flags, prepared } = context
    const { rows, validation, hyperparameters } = prepared
    const reference = parseTrainedModel(args.model)
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    await addSizeDefaults(context, client, { kind: 'dpo', baseModel: model.base_model, hyperparameters })
    await submitJob(context, client, flags, {
      kind: 'dpo',
      model,
      counts:
        rows.facts === null
          ? (flags.dataUrl ?? '')
          : plural(rows.facts, hyperparameters['loss_type'] === 'kto' ? 'answer' : 'pair'),
      facts: { pairs: rows.facts, validation_pairs: validation.facts },
      hyperparameters,
      toRequest: () =>
        toRowsRequest(context, client, { model, rows, validation, hyperparameters, isPlanned: flags.plan }),
      plan: client.trainingJobs.planDpo,
      create: client.trainingJobs.createDpo,
    })
  },
})
