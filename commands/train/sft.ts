/**
 * `trainyard train sft`: uploads example conversations and trains on them as one job.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { checkConversations } from '#cli/input/conversation-file.js'
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
const reader = { kind: 'conversation', check: checkConversations } as const

export const trainSft = defineCommand({
  path: ['train', 'sft'],
  summary: 'Train a model on example conversations',
  details:
    'Local files are checked, uploaded and passed as training_data_url and validation_data_url; CSV, TSV, Parquet, JSON and JSON Lines, each plain or compressed with gzip. Rows of other trainers, and of columns such as text and label, are converted where that is plain, and that is said. Named flags override --set, which overrides --config.',
  examples: [
    ['trainyard train sft email-agent --file data.jsonl --watch', 'upload, submit, follow, exit with the outcome'],
    ['trainyard train sft email-agent --file data.jsonl --batch-size 8 --learning-rate 2e-4', 'chosen hyperparameters'],
    [
      'trainyard train sft email-agent --file data.jsonl --validation-file held-out.jsonl --epochs 10 --early-stopping-patience 2',
      'stop when held-out rows no longer get better, and keep the best state',
    ],
    ['trainyard train sft email-agent --data-url file-0192 --json', 'data uploaded before'],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    ...dataFlags('conversations'),
    ...optionFlags('sft'),
    ...validationFlags('conversations'),
    ...modeFlags,
    ...hyperparameterFlags('config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    const sources = dataSources(flags, 'example conversations')
    assertOneMode(flags)
    return {
      rows: await openRows(context, sources.rows, { ...reader, map: flags.map }),
      validation: await openRows(context, sources.validation, { ...reader, map: flags.map }),
      hyperparameters: await collectHyperparameters(context, 'sft', flags),
    }
  },
  async run(context) {
    const { connect, args, flags, prepared } = context
    const { rows, validation, hyperparameters } = prepared
    const reference = parseTrainedModel(args.model)
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    const hasValidation = validation.path !== null || validation.url !== undefined
    const atHand =
      rows.facts === null ? undefined : { rows: rows.facts.rowCount, bytes: rows.data?.size ?? 0, hasValidation }
    await addSizeDefaults(context, client, { kind: 'sft', baseModel: model.base_model, hyperparameters, rows: atHand })
    await submitJob(context, client, flags, {
      kind: 'sft',
      model,
      counts: rows.facts === null ? (flags.dataUrl ?? '') : plural(rows.facts.rowCount, 'conversation'),
      facts: {
        conversations: rows.facts?.rowCount ?? null,
        assistant_turns: rows.facts?.assistantTurnCount ?? null,
        validation_conversations: validation.facts?.rowCount ?? null,
      },
      hyperparameters,
      toRequest: () =>
        toRowsRequest(context, client, { model, rows, validation, hyperparameters, isPlanned: flags.plan }),
      plan: client.trainingJobs.planSft,
      create: client.trainingJobs.createSft,
    })
  },
})
