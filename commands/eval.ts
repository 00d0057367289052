/**
 * `trainyard eval`: how good a model is at held-out prompts, recorded with its checkpoint, and a threshold for CI.
 */
import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { planRollout, rolloutFlags, sampleGroups, summarize } from '#cli/rollout/sample.js'
import { formatNumber, plural } from '#cli/terminal/format.js'

export const evaluate = defineCommand({
  path: ['eval'],
  summary: 'Measure a model on held-out prompts',
  details:
    'Prompts and rewards as for trainyard rollout. The means are stored as metrics of the latest checkpoint, where checkpoints list and --keep best:val/reward find them; a base model or an older step is only measured.',
  examples: [
    ['trainyard eval orders --prompts held-out.jsonl', 'mean reward, stored as val/reward'],
    ['trainyard eval orders --prompts held-out.jsonl --min-reward 0.8 --json', 'exit 1 below a threshold, for CI'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name, :stepN if wanted, or a base model', { asks: 'served' }) },
  flags: {
    ...rolloutFlags,
    count: flag.integer(1, 128)('-n <count>', 'answers per prompt, 1 to 128; default 1', { default: 1 }),
    split: flag.text('--split <name>', 'name of the metrics; default val', { default: 'val' }),
    minReward: flag.number()('--min-reward <x>', 'exit 1 when the mean reward is lower, or an answer failed'),
  },
  exits: ['not_found'],
  next: ['trainyard checkpoints list <model>'],
  prepare: (context) => planRollout(context, context.flags),
  async run(context) {
    const { connect, output, args, flags, signal, prepared: plan } = context
    const client = await connect()
    const { name, model, step } = await resolveServed(context, client, args.model)
    const groups = await sampleGroups(context, client, { model: name, plan, count: flags.count, flags })
    const facts = summarize(context, groups)
    const isStored = model !== null && step === null
    const metrics = isStored
      ? (
          await client.models.log(
            model.id,
            { split: flags.split, trajectory_groups: groups.map((each) => each.toJSON()) },
            { signal },
          )
        ).metrics
      : {}
    const answers = plural(facts.trajectories, 'answer')
    const where = isStored ? `, stored as ${flags.split}/reward of step ${model.step}` : ', not stored'
    output.result(
      {
        model: args.model,
        step: step ?? model?.step ?? null,
        split: flags.split,
        ...facts,
        metrics,
        is_stored: isStored,
      },
      `Reward ${formatNumber(facts.reward)} (${flags.reward ?? 'exact'}) over ${answers} to ${plural(facts.groups, 'prompt')}${where}`,
      [formatNumber(facts.reward)],
    )
    if (isStored && facts.reward < 1) {
      const reward = flags.reward === undefined ? '' : ` --reward ${JSON.stringify(flags.reward)}`
      output.hint(
        `trainyard rollout ${args.model} --prompts ${flags.prompts}${reward} | trainyard train rl ${args.model} --file - --watch`,
      )
    }
    if (flags.minReward === undefined) return
    if (facts.exceptions > 0) {
      throw new AppError(
        'internal',
        'eval_incomplete',
        `${facts.exceptions} of ${facts.exceptions + facts.trajectories} answers failed, so the mean says nothing of the minimum of ${flags.minReward}`,
        { hint: 'evaluate again, with more --retries if need be' },
      )
    }
    if (facts.reward < flags.minReward) {
      throw new AppError(
        'internal',
        'reward_below_minimum',
        `reward ${formatNumber(facts.reward)} is below the minimum of ${flags.minReward}`,
      )
    }
  },
})
