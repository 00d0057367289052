/**
 * `trainyard train sft`: uploads example conversations and trains on them as one job.
 */
import {
  ASSISTANT_TURNS,
  BATCH_SIZE,
  EARLY_STOPPING_PATIENCE,
  EPOCHS,
  LEARNING_RATE,
  LEARNING_RATE_SCHEDULES,
  SFT_DEFAULTS,
  VALIDATION_INTERVAL,
  WARMUP_STEPS,
  WEIGHT_DECAY,
} from '#api/settings/training.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseAssignment, parseInteger } from '#cli/command/parse.js'
import { checkConversations } from '#cli/input/conversation-file.js'
import { displayPath, openInput } from '#cli/input/input-file.js'
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

export const trainSft = defineCommand({
  path: ['train', 'sft'],
  summary: 'Train a model on example conversations',
  details:
    'Local files are checked, uploaded and passed as training_data_url and validation_data_url; they may be compressed with gzip. Named flags override --set, which overrides --config.',
  examples: [
    ['trainyard train sft email-agent --file data.jsonl --watch', 'upload, submit, follow, exit with the outcome'],
    ['trainyard train sft email-agent --file data.jsonl --batch-size 8 --learning-rate 2e-4', 'chosen hyperparameters'],
    [
      'trainyard train sft email-agent --file data.jsonl --validation-file held-out.jsonl --epochs 10 --early-stopping-patience 2',
      'stop when held-out rows no longer get better, and keep the best state',
    ],
    ['trainyard train sft email-agent --data-url file-0192 --json', 'data uploaded before'],
  ],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    file: flag.text('--file <path>', 'JSON Lines of conversations, - for standard input'),
    dataUrl: flag.text('--data-url <url>', 'data the service can reach: file-<id>, https://… or wandb-artifact:///…'),
    batchSize: flag.custom((text) => (text === 'auto' ? text : parseInteger(text, BATCH_SIZE.min, BATCH_SIZE.max)))(
      '--batch-size <n|auto>',
      `conversations per gradient step; default ${SFT_DEFAULTS.batch_size}`,
    ),
    learningRate: flag.number(LEARNING_RATE.min, LEARNING_RATE.max)(
      '--learning-rate <x>',
      `step size of the optimizer; default ${SFT_DEFAULTS.learning_rate.toExponential()}, 3e-4 for models below 300 million parameters, 1e-3 below 20`,
    ),
    epochs: flag.integer(EPOCHS.min, EPOCHS.max)(
      '--epochs <n>',
      `passes over the data; default ${SFT_DEFAULTS.epochs}`,
    ),
    validationFile: flag.text('--validation-file <path>', 'JSON Lines of conversations to measure on, not to train'),
    watch: flag.switch('--watch', 'follow the job and exit with its outcome'),
    plan: flag.switch('--plan', 'show steps, masks, memory and time of the job without starting it'),
    dryRun: flag.switch('--dry-run', 'check the file and show what would be sent'),
    assistantTurns: flag.choice(ASSISTANT_TURNS)(
      `--assistant-turns <${ASSISTANT_TURNS.join('|')}>`,
      `turns to learn from; default ${SFT_DEFAULTS.assistant_turns}`,
      {
        isAdvanced: true,
      },
    ),
    schedule: flag.choice(LEARNING_RATE_SCHEDULES)(
      `--schedule <${LEARNING_RATE_SCHEDULES.join('|')}>`,
      `course of the learning rate over all epochs; default ${SFT_DEFAULTS.learning_rate_schedule}`,
      { isAdvanced: true },
    ),
    warmupSteps: flag.integer(WARMUP_STEPS.min, WARMUP_STEPS.max)(
      '--warmup-steps <n>',
      `batches over which the rate rises; default ${SFT_DEFAULTS.warmup_steps}`,
      { isAdvanced: true },
    ),
    minLearningRate: flag.number(LEARNING_RATE.min, LEARNING_RATE.max)(
      '--min-learning-rate <x>',
      `rate the schedule starts from and ends at; default ${SFT_DEFAULTS.min_learning_rate}`,
      { isAdvanced: true },
    ),
    weightDecay: flag.number(WEIGHT_DECAY.min, WEIGHT_DECAY.max)(
      '--weight-decay <x>',
      `decoupled decay of AdamW; default ${SFT_DEFAULTS.weight_decay}`,
      { isAdvanced: true },
    ),
    validationDataUrl: flag.text('--validation-data-url <url>', 'validation rows the service can reach', {
      isAdvanced: true,
    }),
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
    keepBest: flag.toggle(
      '--keep-best',
      'keep the state with the lowest validation loss; default with early stopping',
      {
        isAdvanced: true,
      },
    ),
    config: flag.text('--config <file>', 'JSON object of config', { isAdvanced: true }),
    set: flag.repeated(parseAssignment, '--set <key=value>', 'one key of config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs events <job> --follow'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    if (flags.file !== undefined && flags.dataUrl !== undefined) {
      throw new UsageError('conflicting_options', '--file and --data-url name the data twice: give one of them')
    }
    if (flags.file === undefined && flags.dataUrl === undefined) {
      throw new UsageError('missing_option', '--file with example conversations is required', {
        param: '--file',
        hint: 'trainyard help files shows the format',
      })
    }
    assertOneMode(flags)
    const reference = parseModelReference(args.model)
    const data = flags.file === undefined ? null : await openInput(flags.file, io)
    const facts = data === null ? null : await checkConversations(data, displayPath(flags.file ?? ''))
    if (flags.validationFile !== undefined && flags.validationDataUrl !== undefined) {
      throw new UsageError(
        'conflicting_options',
        '--validation-file and --validation-data-url name the rows twice: give one of them',
      )
    }
    const validation = flags.validationFile === undefined ? null : await openInput(flags.validationFile, io)
    const validationFacts =
      validation === null ? null : await checkConversations(validation, displayPath(flags.validationFile ?? ''))
    const hyperparameters = await collectHyperparameters(context, flags, {
      batch_size: flags.batchSize,
      learning_rate: flags.learningRate,
      assistant_turns: flags.assistantTurns,
      epochs: flags.epochs,
      learning_rate_schedule: flags.schedule,
      warmup_steps: flags.warmupSteps,
      min_learning_rate: flags.minLearningRate,
      weight_decay: flags.weightDecay,
      validation_interval: flags.validationInterval,
      early_stopping_patience: flags.earlyStoppingPatience,
      keep_best: flags.keepBest,
    })
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    addLearningRate(context, hyperparameters, { baseModel: model.base_model, published: SFT_DEFAULTS.learning_rate })
    const counts = facts === null ? (flags.dataUrl ?? '') : plural(facts.rowCount, 'conversation')
    if (flags.dryRun) {
      const json = {
        conversations: facts?.rowCount ?? null,
        assistant_turns: facts?.assistantTurnCount ?? null,
        validation_conversations: validationFacts?.rowCount ?? null,
        config: hyperparameters,
      }
      return showDryRun(context, { counts, model, json }, hyperparameters)
    }
    const addressOf = (rows: Blob, path = '-', otherwise: string) =>
      sendRows(context, client, { rows, path, otherwise, isPlanned: flags.plan })
    const url = data === null ? (flags.dataUrl ?? '') : await addressOf(data, flags.file, 'train.jsonl')
    const validationUrl =
      validation === null
        ? flags.validationDataUrl
        : await addressOf(validation, flags.validationFile, 'validation.jsonl')
    const request = {
      model_id: model.id,
      training_data_url: url,
      ...(validationUrl === undefined ? {} : { validation_data_url: validationUrl }),
      config: hyperparameters,
    }
    if (flags.plan) return showPlan(output, await client.trainingJobs.planSft(request, { signal }), model.name)
    const job = await client.trainingJobs.createSft(request, { signal })
    await reportSubmitted(context, client, { job, model, counts, isWatched: flags.watch })
  },
})
