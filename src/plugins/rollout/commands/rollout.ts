/**
 * `trainyard rollout`: samples groups of answers, scores them, and writes what `trainyard train rl` reads.
 */

import { stringifyExact } from '#base/json/exact-json.js'
import { writeWhole } from '#base/write-whole.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { assertWritable } from '#cli/local/output-file.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'
import { type CurriculumCounts, openCurriculum } from '#plugins/rl-library/curriculum.js'
import { needsExamples, sayOfGroups } from '#plugins/rl-library/diagnose.js'
import { timesShown } from '#plugins/rl-library/was-shown.js'
import { exampleOf } from '../examples.js'
import { rolloutFlags } from '../flags.js'
import { findMissing } from '../missing.js'
import { keysOf, planRollout, sampleGroups, summarize } from '../sample.js'

export const rollout = defineCommand({
  path: ['rollout'],
  summary: 'Sample groups of answers with rewards, to train on',
  details:
    'A reward file exports "reward": (answer, row, messages) => number. A reward command gets {"answer","row","messages"} as JSON on standard input and prints a number, or {"reward","metrics"}. Groups go to standard output unless --out names a file.',
  examples: [
    ['trainyard rollout orders --prompts mails.jsonl --reward ./reward.mjs --out groups.jsonl', 'your own reward'],
    [
      'trainyard rollout orders --prompts mails.jsonl -n 8 | trainyard train rl orders --file - --watch',
      'one turn of a loop: ask, compare with each row\'s "answer", train',
    ],
    [
      'trainyard rollout orders --prompts mails.jsonl --until-trainable 16 --out groups.jsonl',
      'only groups that teach, for prompts that are mostly failed or mostly solved',
    ],
    [
      'trainyard rollout orders --prompts mails.jsonl --curriculum orders.curriculum.json --pick 16 --out groups.jsonl',
      '16 of many prompts, those that are right now and then preferred',
    ],
    ['trainyard rollout orders --prompts q.txt --reward "python3 score.py" --out groups.jsonl', 'in any language'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name, :stepN if wanted, or a base model', { asks: 'served' }) },
  flags: {
    ...rolloutFlags,
    count: flag.integer(1, 128)('-n <count>', 'answers per prompt, one group, 1 to 128; default 8', { default: 8 }),
    untilTrainable: flag.integer(1, 10_000)(
      '--until-trainable <n>',
      'ask on until n groups differ in reward, and keep those; equal ones teach nothing',
    ),
    maxAttempts: flag.integer(1, 100_000)(
      '--max-attempts <n>',
      'groups asked for at most with --until-trainable; default 10 for each that is wanted',
      { isAdvanced: true },
    ),
    curriculum: flag.text(
      '--curriculum <file>',
      'remember success rates by prompt in this file, and prefer prompts between 0.1 and 0.9',
    ),
    pick: flag.integer(1, 100_000)('--pick <n>', 'prompts to ask, drawn by the --curriculum'),
    out: flag.text('--out <file>', 'where to write the groups; default -, standard output', { default: '-' }),
  },
  exits: ['not_found'],
  next: ['trainyard train rl <model> --file groups.jsonl --watch'],
  async prepare(context) {
    const { untilTrainable, maxAttempts, curriculum: file, pick, seed = 0 } = context.flags
    if (maxAttempts !== undefined && untilTrainable === undefined) {
      throw new UsageError('invalid_usage', '--max-attempts bounds --until-trainable, which is not given', {
        param: '--max-attempts',
        hint: 'add --until-trainable <n>, or leave --max-attempts out',
      })
    }
    if (pick !== undefined && file === undefined) {
      throw new UsageError('invalid_usage', '--pick draws prompts by a curriculum, which is not given', {
        param: '--pick',
        hint: 'add --curriculum <file>; it is made where there is none',
      })
    }
    if (file !== undefined && (pick === undefined) === (untilTrainable === undefined)) {
      throw new UsageError('invalid_usage', '--curriculum needs --pick or --until-trainable, and one of them', {
        param: '--curriculum',
        hint: '--pick 16 asks 16 of the prompts; --until-trainable 16 asks on until 16 groups differ',
      })
    }
    // answers take long: they are not sampled for a place where they cannot be kept
    if (context.flags.out !== '-') await assertWritable(context.flags.out)
    if (file !== undefined) await assertWritable(file)
    const curriculum = file === undefined ? null : await openCurriculum({ file, seed })
    return { plan: await planRollout(context, context.flags), curriculum }
  },
  async run(context) {
    const { connect, output, args, flags, signal, prepared } = context
    const { plan, curriculum } = prepared
    const client = await connect()
    const { name, model } = await resolveServed(context, client, args.model)
    const { untilTrainable: trainable, maxAttempts, pick } = flags
    const until = trainable === undefined ? null : { trainable, maxAttempts }
    const { groups, thrownAway, asked } = await sampleGroups(context, client, {
      model: name,
      plan,
      count: flags.count,
      flags,
      until,
      drawn: curriculum === null ? null : { curriculum, pick },
    })
    const counts = curriculum?.count(keysOf(plan))
    const facts = {
      ...summarize(context, groups),
      ...(until === null ? {} : { thrown_away: thrownAway }),
      ...(counts === undefined ? {} : { curriculum: { ...counts } }),
    }
    const shown = model !== null && needsExamples(groups) ? await timesShown(client, model.id, signal) : 0
    for (const finding of sayOfGroups(groups, { shown })) output.warning(finding)
    const answers = groups.flatMap(({ trajectories }) => trajectories.map((each) => exampleOf(each, asked.get(each))))
    const missing = shown > 0 ? findMissing(answers) : null
    if (missing !== null) output.warning(`of the wanted answers is missing: ${missing.says}`)
    // all of them: what failed and what taught nothing belongs into the means of the job
    const lines = groups.map((each) => `${stringifyExact(each.toJSON())}\n`).join('')
    const away = until === null ? '' : `; ${plural(thrownAway, 'group')} with equal rewards thrown away`
    const said = `${plural(facts.groups, 'group')}, ${plural(facts.trajectories, 'trajectory', 'trajectories')}, reward ${formatNumber(facts.reward)}; rewards differ in ${facts.trainable_groups} of them${away}`
    if (counts !== undefined) output.status(sayCounts(counts))
    if (flags.out === '-') {
      output.raw(lines)
      return output.status(said)
    }
    await writeWhole(flags.out, lines)
    output.result({ ...facts, file: flags.out }, `Wrote ${flags.out}: ${said}`, [flags.out])
    if (facts.trainable_groups > 0) {
      output.hint(command`trainyard train rl ${args.model} --file ${flags.out} --watch`)
    }
  },
})

function sayCounts({ unasked, below, between, above }: CurriculumCounts): string {
  return `Of ${plural(unasked + below + between + above, 'prompt')} ${between} are right now and then, ${below} seldom, ${above} mostly, ${unasked} not asked yet`
}
