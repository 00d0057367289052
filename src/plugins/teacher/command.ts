/**
 * `trainyard train distill`: a small model learns from a stronger one, by the teacher's answers or on its own.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { assertOneMode, hyperparameterFlags, modeFlags, parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { optionFlags } from '#cli/training/option-flags.js'
import { collectHyperparameters } from '#cli/training/submission.js'
import { command } from '#contract/wire/command-words.js'
import { readPrompts } from '#plugins/rollout/prompt-file.js'
import { planRollout } from '#plugins/rollout/sample.js'
import { trainByExamples } from './distill-examples.js'
import { DISTILL_FLAGS, refuseWithOnPolicy } from './distill-flags.js'
import { trainOnPolicy } from './distill-on-policy.js'
import { checkTeacher, isAddress, teacherFlags } from './teacher-flags.js'

export const trainDistill = defineCommand({
  path: ['train', 'distill'],
  summary: 'Train a model on what a stronger one says',
  details:
    'The teacher answers the prompts, and a supervised job trains on its answers; they stay in a file, from which a run that was stopped goes on. --dry-run and --plan ask it nothing, and go by what is in the file. With --reward only good answers are trained on. With --on-policy the model answers, and a teacher of this service says of every token how likely it finds it: that needs the same tokenizer, no reward and no file.',
  examples: [
    [
      'trainyard train distill orders --prompts mails.jsonl --teacher https://api.openai.com/v1 --teacher-model gpt-5-mini --teacher-key-file key.txt --watch',
      'answers of a hosted model',
    ],
    [
      'trainyard train distill orders --prompts mails.jsonl --teacher big-model --reward ./reward.mjs --samples 4 --watch',
      'the best of four answers of a model of this service, where it got a reward',
    ],
    ['trainyard train distill orders --prompts mails.jsonl --teacher big-model --on-policy', 'on its own answers'],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    prompts: flag.required(
      '--prompts <file>',
      'JSON Lines with prompt or messages, or a prompt per line; - for stdin',
      {
        what: 'what to ask',
        hint: 'a file with a prompt per line, or JSON Lines: {"prompt":"2+2?","answer":"4"}',
      },
    ),
    ...teacherFlags,
    ...DISTILL_FLAGS,
    ...optionFlags('sft'),
    ...modeFlags,
    ...hyperparameterFlags('config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard eval <model> --prompts <file>', 'trainyard jobs watch <job>'],
  async prepare(context) {
    const { flags } = context
    assertOneMode(flags)
    if (flags.onPolicy) {
      refuseWithOnPolicy(flags)
      if (isAddress(flags.teacher)) {
        throw new UsageError('conflicting_options', '--on-policy needs a teacher of this service, not an address', {
          param: '--teacher',
          hint: "an address tells no log-probabilities of somebody else's tokens: leave --on-policy out, or add the teacher with trainyard base-models add",
        })
      }
    } else if (flags.steps !== undefined) {
      throw new UsageError('conflicting_options', '--steps counts updates of --on-policy, which is not given', {
        param: '--steps',
        hint: '--epochs says how often a job goes through the answers',
      })
    }
    if (flags.minReward !== undefined && flags.reward === undefined) {
      throw new UsageError('conflicting_options', '--min-reward needs --reward', { param: '--min-reward' })
    }
    const key = await checkTeacher(flags)
    if (flags.answers !== undefined) await assertWritable(flags.answers)
    const { rows, score } =
      flags.reward === undefined
        ? { rows: await readPrompts(flags.prompts, context.io, { ...flags, say: context.output.status }), score: null }
        : await planRollout(context, flags)
    return { key, rows, score, hyperparameters: await collectHyperparameters(context, 'sft', flags) }
  },
  async run(context) {
    const { connect, output, args, flags, prepared } = context
    const client = await connect()
    const model = await findModel(parseTrainedModel(args.model), { ...context, client })
    if (flags.onPolicy) await trainOnPolicy(context, client, { flags, model, rows: prepared.rows })
    else await trainByExamples(context, client, { flags, model, ...prepared })
    output.hint(command`trainyard eval ${args.model} --prompts ${flags.prompts}`)
  },
})
