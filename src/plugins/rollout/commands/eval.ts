/**
 * `trainyard eval`: how good a model is at held-out prompts, recorded with its checkpoint, and a threshold for CI.
 */

import { AppError } from '#base/errors/errors.js'
import { type Interval, meanInterval } from '#base/statistics/interval.js'
import { writeWhole } from '#base/write-whole.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { LogTrajectoriesResponse } from '#contract/wire/trajectories.js'
import { needsExamples, sayOfMeasured } from '#plugins/rl-library/diagnose.js'
import { nameMeasurement } from '#plugins/rl-library/measurement.js'
import { timesShown } from '#plugins/rl-library/was-shown.js'
import { ApiError } from '#sdk/client/errors.js'
import type { Choice } from '#sdk/rl/trajectory.js'
import { examplesOf, sayExample, worstOf } from '../examples.js'
import { LONGEST_ANSWER, rolloutFlags } from '../flags.js'
import { sayOfGuessing } from '../guessing.js'
import { findLikelyFiles } from '../likely-files.js'
import { findLost } from '../lost.js'
import { findMissing } from '../missing.js'
import { planRollout, sampleGroups, summarize } from '../sample.js'
import { verdictOf } from '../verdict.js'

/** Answers that are shown unasked when none got a reward. */
const SHOWN_AT_ZERO = 2

export const evaluate = defineCommand({
  path: ['eval'],
  summary: 'Measure a model on held-out prompts',
  details:
    'Prompts and rewards as for trainyard rollout. The means are stored as metrics of the latest checkpoint, where checkpoints list and --keep best:val/reward find them: measured again, the newest counts; other prompts, another reward or other sampling need a --split of their own; a base model or an older step is only measured.',
  examples: [
    ['trainyard eval orders --prompts held-out.jsonl', 'mean reward, stored as val/reward'],
    ['trainyard eval orders --prompts held-out.jsonl --min-reward 0.8 --json', 'exit 1 below a threshold, for CI'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name, :stepN if wanted, or a base model', { asks: 'served' }) },
  flags: {
    ...rolloutFlags,
    count: flag.integer(1, 128)('-n, --samples <count>', 'answers per prompt, 1 to 128; default 1', { default: 1 }),
    show: flag.integer(0, 1000)(
      '--show <n>',
      'show so many answers, the worst first; default 2 when no reward is above 0',
    ),
    out: flag.text('--out <file>', 'write every answer with its prompt and reward, as JSON Lines'),
    split: flag.text('--split <name>', 'name of the metrics; default val', { default: 'val' }),
    minReward: flag.number()('--min-reward <x>', 'exit 1 when the mean reward is lower, or an answer failed'),
  },
  exits: ['not_found'],
  next: ['trainyard checkpoints list <model>'],
  async prepare(context) {
    const { out } = context.flags
    if (out !== undefined) await assertWritable(out)
    return await planRollout(context, context.flags)
  },
  async run(context) {
    const { connect, output, args, flags, signal, prepared: plan } = context
    const client = await connect()
    const { name, model, step } = await resolveServed(context, client, args.model)
    const { groups } = await sampleGroups(context, client, { model: name, plan, count: flags.count, flags })
    const facts = summarize(context, groups)
    const examples = examplesOf(groups, plan.rows)
    if (flags.out !== undefined)
      await writeWhole(
        flags.out,
        examples.map((each) => `${JSON.stringify(each)}\n`),
      )
    const isAllZero = examples.every(({ reward }) => reward <= 0)
    const worst = worstOf(examples, flags.show ?? (isAllZero ? SHOWN_AT_ZERO : 0))
    const interval = meanInterval(
      groups.flatMap(({ meanReward }) => meanReward ?? []),
      plan.range,
    )
    const isLatest = model !== null && step === null
    const measurement = nameMeasurement(
      plan.rows.map(({ messages }) => messages),
      [plan.reward, plan.range === null ? null : [...plan.range], flags.temperature ?? 1, flags.maxTokens],
    )
    const missing = findMissing(examples)
    const isAsked = model !== null && (missing !== null || needsExamples(groups))
    const shown = isAsked ? await timesShown(client, model.id, signal) : 0
    const baseModel = model?.base_model ?? args.model
    const lost = missing === null ? null : await findLost(client, { baseModel, examples, signal })
    const body = { split: flags.split, measurement, trajectory_groups: groups.map((each) => each.toJSON()) }
    const logged = isLatest ? await logOrSay(context, client.models.log(model.id, body, { signal })) : null
    const isStored = logged !== null
    const metrics = logged?.metrics ?? {}
    const guessing = sayOfGuessing(examples)
    const cut = groups.flatMap(({ trajectories }) => trajectories.filter(({ choices }) => isCutOff(choices)))
    const verdict = verdictOf({
      ...{ model: args.model, reward: facts.reward, range: plan.range, shown, missing: lost ?? missing, flags },
      rightShare: missing?.rightShare ?? null,
      files: await findLikelyFiles(flags.prompts),
      isTrainable: isLatest,
      cutShare: cut.length / facts.trajectories,
      isGuessing: guessing.length > 0,
      asked: [
        ...(flags.reward === undefined ? [] : ['--reward', flags.reward]),
        ...(flags.grader === undefined ? [] : ['--grader', flags.grader]),
        ...(flags.rewardRange === undefined ? [] : ['--reward-range', flags.rewardRange.join(',')]),
        ...(flags.maxTokens === LONGEST_ANSWER ? [] : ['--max-tokens', String(flags.maxTokens)]),
      ],
    })
    const answers = plural(facts.trajectories, 'answer')
    const where = isStored ? `, stored as ${flags.split}/reward of step ${model?.step}` : ', not stored'
    output.result(
      {
        model: args.model,
        step: step ?? model?.step ?? null,
        split: flags.split,
        ...facts,
        reward_interval: interval,
        metrics,
        is_stored: isStored,
        verdict,
        ...(worst.length === 0 ? {} : { examples: worst }),
      },
      [
        `Reward ${formatNumber(facts.reward)} (${flags.grader ?? flags.reward ?? 'exact'}${sayInterval(interval)}) over ${answers} to ${plural(facts.groups, 'prompt')}${where}`,
        ...worst.map(sayExample),
      ].join('\n\n'),
      [formatNumber(facts.reward)],
    )
    // what a base model cannot write is no matter of examples, which findings on rewards ask for
    const findings = lost?.isMost === true ? [] : sayOfMeasured(groups, { shown })
    for (const finding of [...findings, ...guessing]) output.warning(finding)
    output.status(`${verdict.says}\n  ${verdict.command}`)
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

const isCutOff = (choices: readonly Choice[]): boolean => choices.at(-1)?.finish_reason === 'length'

/** Null where another measurement holds the place: what was measured is shown all the same. */
async function logOrSay(
  { output }: CommandContext,
  logged: Promise<LogTrajectoriesResponse>,
): Promise<LogTrajectoriesResponse | null> {
  try {
    return await logged
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'other_measurement') throw error
    output.warning(`not stored: ${error.message}; --split <name> stores it beside that`)
    return null
  }
}

function sayInterval(interval: Interval | null): string {
  return interval === null
    ? ''
    : `; 95% between ${interval.map((end) => formatNumber(Number(end.toFixed(12)))).join(' and ')}`
}
