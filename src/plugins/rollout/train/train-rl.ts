/**
 * `train rl --prompts`: what `train rl` does on groups that are there, on groups that are sampled.
 */
import { defineCommand } from '#cli/command/define-command.js'
import type { CommandPart } from '#cli/command/extend-command.js'
import { findModel } from '#cli/names/model-reference.js'
import { hyperparameterFlags, parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { optionFlags } from '#cli/training/option-flags.js'
import { collectHyperparameters } from '#cli/training/submission.js'
import { assertOneSource, loopFlags } from './loop-flags.js'

export const trainByRewards: CommandPart = {
  beforeFlag: 'watch',
  behindExamples: 3,
  isAsked: (given) => given.has('prompts'),
  check: assertOneSource,
  command: defineCommand({
    path: ['train', 'rl'],
    summary: 'Train a model on trajectory groups with rewards',
    details:
      'With --prompts jobs in turn: answers are sampled and scored as by trainyard rollout, trained on, and held-out prompts measured, until two jobs are no better than the best, the reward is all there is, or --jobs are made; the same command goes on where it was stopped.',
    examples: [
      [
        'trainyard train rl email-agent --prompts train.jsonl --held-out held-out.jsonl --jobs 3',
        'sample, score, train, measure, and again until it stops helping',
      ],
    ],
    args: { model: trainedModel },
    flags: { ...optionFlags('rl'), ...loopFlags, ...hyperparameterFlags('experimental_config') },
    async prepare(context) {
      const config = await collectHyperparameters(context, 'rl', context.flags)
      const { prepareLoop } = await import('./loop-command.js')
      return await prepareLoop(context, config)
    },
    async run(context) {
      const client = await context.connect()
      const model = await findModel(parseTrainedModel(context.args.model), { ...context, client })
      const { runLoop } = await import('./loop-command.js')
      await runLoop(context, client, model, context.prepared)
    },
  }),
}
