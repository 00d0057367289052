/**
 * `trainyard train dpo`: uploads preference pairs and trains on them as one job.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { checkPreferences } from '#cli/input/conversation-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { plural } from '#cli/terminal/format.js'
import {
  assertOneMode,
  dataFlags,
  dataSources,
  hyperparameterFlags,
  learningRateFlag,
  modeFlags,
  parseTrainedModel,
  rowFlags,
  rowHyperparameters,
  trainedModel,
} from '#cli/training/flags.js'
import {
  addSizeDefaults,
  collectHyperparameters,
  openRows,
  submitJob,
  toRowsRequest,
} from '#cli/training/submission.js'
import { BETA, DPO_DEFAULTS, LABEL_SMOOTHING } from '#contract/jobs/training.js'

export const trainDpo = defineCommand({
  path: ['train', 'dpo'],
  summary: 'Train a model on preferred and rejected answers',
  details:
    'Rows are {"prompt", "chosen", "rejected"}, as texts or as lists of messages. The reference is the checkpoint the job starts from unless --reference-step or --reference-free says otherwise. Named flags override --set, which overrides --config.',
  examples: [
    ['trainyard train dpo email-agent --file pairs.jsonl --watch', 'upload, submit, follow, exit with the outcome'],
    ['trainyard train dpo email-agent --file pairs.jsonl --beta 0.3 --label-smoothing 0.1', 'chosen hyperparameters'],
    ['trainyard train dpo email-agent --file pairs.jsonl --reference-step 0', 'compared with the base model'],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    ...dataFlags('preference pairs'),
    beta: flag.number(BETA.min, BETA.max)('--beta <x>', `how much a difference counts; default ${DPO_DEFAULTS.beta}`),
    learningRate: learningRateFlag(DPO_DEFAULTS.learning_rate, '1e-4 for models below 20 million parameters'),
    ...rowFlags('pairs', DPO_DEFAULTS),
    ...modeFlags,
    labelSmoothing: flag.number(LABEL_SMOOTHING.min, LABEL_SMOOTHING.max)(
      '--label-smoothing <x>',
      `share of pairs taken to be labelled wrongly; default ${DPO_DEFAULTS.label_smoothing}`,
      { isAdvanced: true },
    ),
    referenceFree: flag.switch('--reference-free', 'compare the policy alone, without a reference', {
      isAdvanced: true,
    }),
    referenceStep: flag.integer(0)(
      '--reference-step <n>',
      'step of the model that is the reference; 0 is the base model',
      {
        isAdvanced: true,
      },
    ),
    ...hyperparameterFlags('config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    const sources = dataSources(flags, 'preference pairs')
    assertOneMode(flags)
    return {
      rows: await openRows(context, sources.rows, checkPreferences),
      validation: await openRows(context, sources.validation, checkPreferences),
      hyperparameters: await collectHyperparameters(context, 'dpo', flags, {
        ...rowHyperparameters(flags),
        learning_rate: flags.learningRate,
        beta: flags.beta,
        label_smoothing: flags.labelSmoothing,
        reference_step: flags.referenceStep,
        reference_free: flags.referenceFree ? true : undefined,
      }),
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
      model,
      counts: rows.facts === null ? (flags.dataUrl ?? '') : plural(rows.facts, 'pair'),
      facts: { pairs: rows.facts, validation_pairs: validation.facts },
      hyperparameters,
      toRequest: () =>
        toRowsRequest(context, client, { model, rows, validation, hyperparameters, isPlanned: flags.plan }),
      plan: client.trainingJobs.planDpo,
      create: client.trainingJobs.createDpo,
    })
  },
})
