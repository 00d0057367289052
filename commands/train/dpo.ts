/**
 * `trainyard train dpo`: uploads preference pairs and trains on them as one job.
 */
import {
  BATCH_SIZE,
  BETA,
  DPO_DEFAULTS,
  EARLY_STOPPING_PATIENCE,
  EPOCHS,
  LABEL_SMOOTHING,
  LEARNING_RATE,
  LEARNING_RATE_SCHEDULES,
  VALIDATION_INTERVAL,
  WARMUP_STEPS,
} from '#api/settings/training.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseAssignment, parseInteger } from '#cli/command/parse.js'
import { checkPreferences } from '#cli/input/conversation-file.js'
import { displayPath, openInput } from '#cli/input/input-file.js'
import { TINY_PREFERENCE_RATE } from '#cli/input/learning-rate.js'
import { findModel, parseModelReference } from '#cli/input/model-reference.js'
import { assertOneMode } from '#cli/input/plan-data.js'
import { plural } from '#cli/terminal/format.js'
import { showPlan } from '#cli/terminal/plan-output.js'
import {
  addLearningRate,
  collectHyperparameters,
  reportSubmitted,
  sendRows,
  showDryRun,
} from '#cli/training/submission.js'

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
  args: { model: argument.required('id, name, project/name or entity/project/name') },
  flags: {
    file: flag.text('--file <path>', 'JSON Lines of preference pairs, - for standard input'),
    validationFile: flag.text('--validation-file <path>', 'JSON Lines of pairs to measure on, not to train'),
    beta: flag.number(BETA.min, BETA.max)('--beta <x>', `how much a difference counts; default ${DPO_DEFAULTS.beta}`),
    learningRate: flag.number(LEARNING_RATE.min, LEARNING_RATE.max)(
      '--learning-rate <x>',
      `step size of the optimizer; default ${DPO_DEFAULTS.learning_rate.toExponential()}, 1e-4 for models below 20 million parameters`,
    ),
    batchSize: flag.custom((text) => (text === 'auto' ? text : parseInteger(text, BATCH_SIZE.min, BATCH_SIZE.max)))(
      '--batch-size <n|auto>',
      `pairs per gradient step; default ${DPO_DEFAULTS.batch_size}`,
    ),
    epochs: flag.integer(EPOCHS.min, EPOCHS.max)(
      '--epochs <n>',
      `passes over the data; default ${DPO_DEFAULTS.epochs}`,
    ),
    watch: flag.switch('--watch', 'follow the job and exit with its outcome'),
    plan: flag.switch('--plan', 'show steps, masks, memory and time of the job without starting it'),
    dryRun: flag.switch('--dry-run', 'check the file and show what would be sent'),
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
    schedule: flag.choice(LEARNING_RATE_SCHEDULES)(
      `--schedule <${LEARNING_RATE_SCHEDULES.join('|')}>`,
      `course of the learning rate; default ${DPO_DEFAULTS.learning_rate_schedule}`,
      { isAdvanced: true },
    ),
    warmupSteps: flag.integer(WARMUP_STEPS.min, WARMUP_STEPS.max)(
      '--warmup-steps <n>',
      `batches over which the rate rises; default ${DPO_DEFAULTS.warmup_steps}`,
      { isAdvanced: true },
    ),
    validationInterval: flag.integer(VALIDATION_INTERVAL.min, VALIDATION_INTERVAL.max)(
      '--validation-interval <n>',
      'gradient steps between measurements; default one epoch',
      { isAdvanced: true },
    ),
    earlyStoppingPatience: flag.integer(EARLY_STOPPING_PATIENCE.min, EARLY_STOPPING_PATIENCE.max)(
      '--early-stopping-patience <n>',
      'stop after n measurements without a better one, keep the best state',
      { isAdvanced: true },
    ),
    config: flag.text('--config <file>', 'JSON object of config', { isAdvanced: true }),
    set: flag.repeated(parseAssignment, '--set <key=value>', 'one key of config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs events <job> --follow'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    if (flags.file === undefined) {
      throw new UsageError('missing_option', '--file with preference pairs is required', { param: '--file' })
    }
    assertOneMode(flags)
    const reference = parseModelReference(args.model)
    const data = await openInput(flags.file, io)
    const pairCount = await checkPreferences(data, displayPath(flags.file))
    const counts = plural(pairCount, 'pair')
    const validation = flags.validationFile === undefined ? null : await openInput(flags.validationFile, io)
    if (validation !== null) await checkPreferences(validation, displayPath(flags.validationFile ?? ''))
    const hyperparameters = await collectHyperparameters(context, flags, {
      batch_size: flags.batchSize,
      learning_rate: flags.learningRate,
      learning_rate_schedule: flags.schedule,
      warmup_steps: flags.warmupSteps,
      epochs: flags.epochs,
      beta: flags.beta,
      label_smoothing: flags.labelSmoothing,
      reference_step: flags.referenceStep,
      reference_free: flags.referenceFree ? true : undefined,
      validation_interval: flags.validationInterval,
      early_stopping_patience: flags.earlyStoppingPatience,
    })
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    addLearningRate(context, hyperparameters, {
      baseModel: model.base_model,
      published: DPO_DEFAULTS.learning_rate,
      tinyRate: TINY_PREFERENCE_RATE,
    })
    if (flags.dryRun) {
      const json = { pairs: pairCount, config: hyperparameters }
      return showDryRun(context, { counts, model, json }, hyperparameters)
    }
    const addressOf = (rows: Blob, path: string) =>
      sendRows(context, client, { rows, path, otherwise: 'pairs.jsonl', isPlanned: flags.plan })
    const request = {
      model_id: model.id,
      training_data_url: await addressOf(data, flags.file),
      ...(validation === null ? {} : { validation_data_url: await addressOf(validation, flags.validationFile ?? '-') }),
      config: hyperparameters,
    }
    if (flags.plan) return showPlan(output, await client.trainingJobs.planDpo(request, { signal }), model.name)
    const job = await client.trainingJobs.createDpo(request, { signal })
    await reportSubmitted(context, client, { job, model, counts, isWatched: flags.watch })
  },
})
