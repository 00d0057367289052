/**
 * `trainyard tune`: which learning rate suits a model and its prompts, by short jobs on forks; the best one is then trained on the model.
 */

import { systemIds } from '#base/util/ids.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { findModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { hyperparameterFlags, parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { collectHyperparameters } from '#cli/training/submission.js'
import { publishedRate, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import { sayOfGroups } from '#plugins/rl-library/diagnose.js'
import { TrainableModel } from '#plugins/rl-library/model.js'
import type { Client } from '#sdk/client/client.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { parametersOf } from '#sdk/client/model-size.js'
import { collectPages } from '#sdk/client/pages.js'
import { rolloutFlags } from '../flags.js'
import { planRollout, sampleGroups, summarize } from '../sample.js'
import {
  bestOf,
  forkName,
  judge,
  leftForks,
  ratesAround,
  sayChoice,
  sayTrial,
  splitPrompts,
  type Trial,
} from '../tuning.js'

const MS_PER_MINUTE = 60_000

export const tune = defineCommand({
  path: ['tune'],
  summary: 'Find the learning rate of rewards by short jobs',
  details:
    'Asks the prompts once, trains forks of the model on those answers by one job each, at a rate, a third of it and three times it, and asks held-out prompts before and after. The best rate is trained on the model itself, unless no job is better than none. Forks are deleted; those that a killed run left are named, with the line that deletes them. A rate is left out where it would not end within --minutes.',
  examples: [
    ['trainyard tune orders --prompts mails.jsonl --reward ./reward.mjs', 'every fourth prompt is held out'],
    ['trainyard tune orders --prompts mails.jsonl --held-out held-out.jsonl --minutes 5', 'a file to measure on'],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    ...rolloutFlags,
    heldOut: flag.text('--held-out <file>', 'prompts to measure on; default every fourth of --prompts'),
    count: flag.integer(2, 128)('-n <count>', 'answers per prompt to train on, 2 to 128; default 8', { default: 8 }),
    samples: flag.integer(1, 128)('--samples <count>', 'answers per held-out prompt; default 4', { default: 4 }),
    minutes: flag.number(0.1, 1440)('--minutes <n>', 'longest time for all of it; default 10', { default: 10 }),
    learningRate: flag.number(0, 1)('--learning-rate <x>', "the middle one; default that of the base model's size"),
    ...hyperparameterFlags('experimental_config'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard eval <model> --prompts <file>'],
  async prepare(context) {
    const { flags } = context
    const plan = await planRollout(context, flags)
    const { training, heldOut } =
      flags.heldOut === undefined
        ? splitPrompts(plan.rows)
        : { training: plan.rows, heldOut: (await planRollout(context, { ...flags, prompts: flags.heldOut })).rows }
    const config = await collectHyperparameters(context, 'rl', flags)
    return { training: { ...plan, rows: training }, heldOut: { ...plan, rows: heldOut }, config }
  },
  async run(context) {
    const { connect, output, args, flags, clock, prepared } = context
    const endMs = clock.monotonicMs() + flags.minutes * MS_PER_MINUTE
    const late = new AbortController()
    const outOfTime = new UsageError('out_of_time', `tuning did not end within ${plural(flags.minutes, 'minute')}`, {
      param: '--minutes',
      hint: 'raise --minutes, or ask fewer prompts or for shorter answers (--max-tokens)',
    })
    setTimeout(() => late.abort(outOfTime), flags.minutes * MS_PER_MINUTE).unref()
    const signal = AbortSignal.any([context.signal, late.signal])
    const client = await connect()
    const model = await findModel(parseTrainedModel(args.model), { ...context, client })
    const ask = async (name: string, plan: typeof prepared.training, count: number) =>
      (await sampleGroups({ ...context, signal }, client, { model: name, plan, count, flags })).groups
    const { learning_rate: given, ...config } = prepared.config
    const parameters = await parametersOf(client, model.base_model, { signal })
    const middle = flags.learningRate ?? given ?? sizeDefaults('rl', config, parameters)['learning_rate']
    const rates = ratesAround(typeof middle === 'number' ? middle : publishedRate('rl'))

    await tellOfForks({ ...context, signal }, client, model)
    const start = inferenceName(model, model.step)
    const groups = await ask(start, prepared.training, flags.count)
    summarize(context, groups)
    if (!groups.some(({ isTrainable }) => isTrainable)) {
      throw new UsageError('no_trainable_tokens', `nothing to compare rates with: ${sayOfGroups(groups)[0] ?? ''}`)
    }
    const before = await ask(start, prepared.heldOut, flags.samples)
    const { reward } = summarize(context, before)
    output.status(`step ${model.step}: held-out reward ${formatNumber(reward)}`)

    const { entity, project, base_model: baseModel } = model
    const train = async (name: string, rate: number) => {
      const trained = await new TrainableModel(client, { name, baseModel, project }).register()
      const options = { learningRate: rate, config: { seed: 0, ...config }, signal }
      return await trained.train(groups, { ...options, onWarning: () => undefined })
    }
    const trials: Trial[] = []
    let [longestMs, leftOut] = [0, 0]
    for (const rate of rates) {
      const beganMs = clock.monotonicMs()
      // what one took, and the job on the model itself
      if (trials.length > 0 && beganMs + 2 * longestMs > endMs) {
        leftOut += 1
        continue
      }
      const name = forkName(model.name, systemIds.uuid())
      const fork = await client.models.create({ name, entity, project, from_checkpoint: start }, { signal })
      try {
        await train(name, rate)
        const trial = judge(rate, before, await ask(inferenceName(fork), prepared.heldOut, flags.samples))
        trials.push(trial)
        output.event({ object: 'tuning.trial', ...trial }, sayTrial(trial))
      } finally {
        await client.models.delete(fork.id)
      }
      longestMs = Math.max(longestMs, clock.monotonicMs() - beganMs)
    }
    if (leftOut > 0) output.warning(`${plural(leftOut, 'rate')} not tried within ${flags.minutes} minutes (--minutes)`)
    const best = bestOf(trials)
    const { step } = best === null ? model : await train(model.name, best.rate)
    const said = sayChoice(best, trials, reward)
    const kept = best === null ? `stays at step ${step}` : `is at step ${step}, trained at it on the same answers`
    const facts = { model: args.model, start_step: model.step, step, reward_before: reward }
    output.result({ object: 'tuning', ...facts, kept: best, trials, said }, `${said}. ${args.model} ${kept}.`, [
      best === null ? '' : best.rate.toExponential(),
    ])
    if (best !== null) {
      output.hint(command`trainyard train rl ${args.model} --file - --learning-rate ${best.rate.toExponential()}`)
    }
  },
})

/** What a killed run left is told of, and not deleted: another run may be at it, and somebody may have kept one. */
async function tellOfForks(
  { output, signal }: Pick<CommandContext, 'output' | 'signal'>,
  client: Client,
  { entity, project, name }: Model,
): Promise<void> {
  const models = await collectPages((query) => client.models.list({ entity, project, ...query }, { signal }))
  const left = leftForks(models.data, name)
  if (left.length === 0) return
  const names = left.map((fork) => `${entity}/${project}/${fork.name}`)
  output.warning(
    `${plural(left.length, 'fork')} of another tuning of ${name}, which runs or was killed; where none runs: ${command`trainyard models delete ${names}`}`,
  )
}
