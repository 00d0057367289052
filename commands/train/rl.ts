/**
 * `trainyard train rl`: submits trajectory groups as one training job.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { explainEmpty, readTrajectoryFile } from '#cli/input/trajectory-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import {
  assertOneMode,
  hyperparameterFlags,
  learningRateFlag,
  modeFlags,
  parseTrainedModel,
  trainedModel,
} from '#cli/training/flags.js'
import { addSizeDefaults, collectHyperparameters, submitJob } from '#cli/training/submission.js'
import {
  KL_PENALTY_COEF,
  PACKED_SEQUENCE_LENGTH,
  POLICY_LOSSES,
  RATIO_BOUND,
  RL_DEFAULTS,
  TARGET_KL,
} from '#contract/jobs/training.js'
import { ApiError } from '#sdk/client/errors.js'

export const trainRl = defineCommand({
  path: ['train', 'rl'],
  summary: 'Train a model on trajectory groups with rewards',
  details:
    'Named flags override --set, which overrides --config. Groups whose rewards are all equal teach nothing and are skipped. For models below a billion parameters an optimizer step covers 384 or 1,024 tokens unless tokens_per_step, packed_sequence_length or grad_accumulation_sequences is set.',
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
    file: flag.required('--file <path>', 'JSON Lines of trajectory groups, - for standard input', {
      what: 'trajectory groups',
      hint: 'trainyard rollout makes one; trainyard help files shows the format',
    }),
    learningRate: learningRateFlag(
      RL_DEFAULTS.learning_rate,
      '3e-4 for models below 300 million parameters, 1e-3 below 20',
    ),
    ...modeFlags,
    loss: flag.choice(POLICY_LOSSES)(
      `--loss <${POLICY_LOSSES.join('|')}>`,
      `policy loss; default ${RL_DEFAULTS.loss_fn}`,
      { isAdvanced: true },
    ),
    epsilon: flag.number(RATIO_BOUND.min, RATIO_BOUND.max)('--epsilon <x>', 'clip below', { isAdvanced: true }),
    epsilonHigh: flag.number(RATIO_BOUND.min, RATIO_BOUND.max)('--epsilon-high <x>', 'clip above', {
      isAdvanced: true,
    }),
    klCoef: flag.number(KL_PENALTY_COEF.min, KL_PENALTY_COEF.max)(
      '--kl-coef <x>',
      `weight of the KL penalty; default ${RL_DEFAULTS.kl_penalty_coef}`,
      { isAdvanced: true },
    ),
    targetKl: flag.number(TARGET_KL.min, TARGET_KL.max)(
      '--target-kl <x>',
      'nats per token an update may move the policy, longer ones are shortened; default 0.2 for models below 20 million parameters, --set target_kl=null for none',
      { isAdvanced: true },
    ),
    tokensPerStep: flag.integer(PACKED_SEQUENCE_LENGTH.min, PACKED_SEQUENCE_LENGTH.max)(
      '--tokens-per-step <n>',
      'tokens an optimizer step covers; drops nothing',
      { isAdvanced: true },
    ),
    scaleRewards: flag.toggle('--scale-rewards', "divide advantages by the group's deviation; default on", {
      isAdvanced: true,
    }),
    ...hyperparameterFlags('experimental_config'),
    allowEmpty: flag.switch('--allow-empty', 'nothing to train on is a warning, for loops', { isAdvanced: true }),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    assertOneMode(flags)
    const file = await readTrajectoryFile(flags.file, context.io)
    const hyperparameters = await collectHyperparameters(context, 'rl', flags, {
      learning_rate: flags.learningRate,
      ...(flags.loss === undefined ? {} : { ppo: flags.loss === 'ppo', loss_fn: flags.loss }),
      epsilon: flags.epsilon,
      epsilon_high: flags.epsilonHigh,
      kl_penalty_coef: flags.klCoef,
      scale_rewards: flags.scaleRewards,
      tokens_per_step: flags.tokensPerStep,
      target_kl: flags.targetKl,
    })
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
    const { file, hyperparameters, empty, nothing } = prepared
    const reference = parseTrainedModel(args.model)
    if (nothing !== null) {
      output.warning(nothing)
      return
    }
    if (flags.plan && empty !== null) output.warning(empty)
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    await addSizeDefaults(context, client, { kind: 'rl', baseModel: model.base_model, hyperparameters })
    const skipped = file.groups.length - file.trainableGroupCount
    const groups = plural(file.groups.length, 'group')
    const trajectories = plural(file.trajectoryCount, 'trajectory', 'trajectories')
    await submitJob(context, client, flags, {
      model,
      counts: `${groups}, ${trajectories}${skipped === 0 ? '' : ` (${plural(skipped, 'group')} with equal rewards)`}`,
      facts: {
        groups: file.groups.length,
        trainable_groups: file.trainableGroupCount,
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
