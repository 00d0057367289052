/**
 * `trainyard train rl`: submits trajectory groups as one training job.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { findModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import { assertOneMode, hyperparameterFlags, modeFlags, parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { optionFlags } from '#cli/training/option-flags.js'
import { addSizeDefaults, collectHyperparameters, submitJob } from '#cli/training/submission.js'
import { countTraining, estimatorOf } from '#formats/rows/which-train.js'
import { ApiError } from '#sdk/client/errors.js'

export const trainRl = defineCommand({
  path: ['train', 'rl'],
  summary: 'Train a model on trajectory groups with rewards',
  details:
    'With --file one job on groups that are there. Named flags override --set, which overrides --config. Groups whose rewards are all equal teach nothing and are skipped. For models below a billion parameters an optimizer step covers 384 or 1,024 tokens unless tokens_per_step, packed_sequence_length or grad_accumulation_sequences is set.',
  examples: [
    ['trainyard train rl email-agent --file groups.jsonl --watch', 'submit, follow, exit with the outcome'],
    ['trainyard train rl email-agent --file groups.jsonl --plan', 'what the job would do, without starting it'],
    ['trainyard train rl email-agent --file groups.jsonl --learning-rate 1e-5 --loss ppo', 'chosen hyperparameters'],
    [
      'trainyard train rl email-agent --file - --set importance_sampling_level=sequence < groups.jsonl',
      'any other key',
    ],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    file: flag.text('--file <path>', 'JSON Lines of trajectory groups, - for standard input'),
    ...optionFlags('rl'),
    ...modeFlags,
    ...hyperparameterFlags('experimental_config'),
    allowEmpty: flag.switch('--allow-empty', 'nothing to train on is a warning, for loops', { isAdvanced: true }),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    assertOneMode(flags)
    if (flags.file === undefined) {
      throw new UsageError('missing_option', '--file with trajectory groups is required', {
        param: '--file',
        hint: 'trainyard help files shows the format',
      })
    }
    const { explainEmpty, readTrajectoryFile } = await import('#cli/input/trajectory-file.js')
    const file = await readTrajectoryFile(flags.file, context.io)
    // the older name of the loss, where a file says otherwise
    const loss = flags.loss_fn === undefined ? {} : { ppo: flags.loss_fn === 'ppo' }
    const hyperparameters = await collectHyperparameters(context, 'rl', flags, loss)
    const empty = explainEmpty(file, hyperparameters)
    const isEmpty = empty !== null && !flags.dryRun && !flags.plan
    if (isEmpty && !flags.allowEmpty) {
      throw new UsageError('no_trainable_tokens', empty, {
        hint: '--allow-empty makes this a warning, for loops',
      })
    }
    return { file, hyperparameters, empty, nothing: isEmpty ? empty : null }
  },
  async run(context) {
    const { connect, output, args, flags, prepared } = context
    const reference = parseTrainedModel(args.model)
    const { file, hyperparameters, empty, nothing } = prepared
    if (nothing !== null) {
      output.warning(nothing)
      return
    }
    if (flags.plan && empty !== null) output.warning(empty)
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    await addSizeDefaults(context, client, { kind: 'rl', baseModel: model.base_model, hyperparameters })
    const trainable = countTraining(file.rewards, estimatorOf(hyperparameters))
    const skipped = file.groups.length - trainable
    const groups = plural(file.groups.length, 'group')
    const trajectories = plural(file.trajectoryCount, 'trajectory', 'trajectories')
    await submitJob(context, client, flags, {
      kind: 'rl',
      model,
      counts: `${groups}, ${trajectories}${skipped === 0 ? '' : ` (${skipped} of them without anything to learn from)`}`,
      facts: {
        groups: file.groups.length,
        trainable_groups: trainable,
        trajectories: file.trajectoryCount,
        mean_reward: file.meanReward,
      },
      hyperparameters,
      toRequest: async () => ({
        model_id: model.id,
        trajectory_groups: file.groups,
        experimental_config: hyperparameters,
      }),
      plan: client.trainingJobs.planRl,
      create: (request, call) =>
        client.trainingJobs.createRl(request, call).catch((error: unknown) => {
          const isNothing = error instanceof ApiError && error.code === 'no_trainable_tokens'
          if (!flags.allowEmpty || !isNothing) throw error
          output.warning(error.message)
          return null
        }),
    })
  },
})
