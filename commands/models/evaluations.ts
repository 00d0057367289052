/**
 * `trainyard models evaluations`: what was logged of a model, by step, or prompt by prompt between two steps.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { askedNamespace, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { Column } from '#cli/terminal/table.js'
import { quoteWord } from '#contract/wire/command-words.js'
import type { LogComparison, LoggedPair } from '#contract/wire/log-comparison.js'
import type { TrajectoryLog } from '#contract/wire/trajectories.js'
import { collectPages } from '#sdk/client/pages.js'

/** Prompts of a comparison that are shown. */
const SHOWN = 5

export const modelEvaluations = defineCommand({
  path: ['models', 'evaluations'],
  summary: 'Show evaluations of a model by step, or what changed between two',
  details:
    'What trainyard eval and trainyard log stored, newest first. With --from and --to: prompts that were logged at both steps, in pairs, what got worst first; the interval is of the mean difference, 95%, over prompts. Nothing is sampled: trainyard compare does that.',
  examples: [
    ['trainyard models evaluations email-agent', 'by step and split'],
    ['trainyard models evaluations email-agent --from 3 --to 7', 'which prompts got better or worse'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    split: flag.text('--split <name>', 'only this split; default val where two steps are compared'),
    from: flag.integer(0)('--from <step>', 'step to compare with; 0 is what was logged before the first job'),
    to: flag.integer(0)('--to <step>', 'step that is judged'),
    show: flag.integer(1, 100)(
      '--show <n>',
      `prompts shown of a comparison, 1 to 100, the worst first; default ${SHOWN}`,
    ),
    ...pageFlags,
  },
  exits: ['not_found'],
  next: ['trainyard compare <model>:step3 <model> --prompts held-out.jsonl'],
  async run(context) {
    const { connect, config, output, args, flags, signal } = context
    const { from, to } = flags
    if ((from === undefined) !== (to === undefined)) {
      throw new UsageError('missing_option', '--from and --to name the two steps together: give both of them')
    }
    assertOneList(flags)
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    if (from === undefined || to === undefined) {
      const split = flags.split === undefined ? {} : { split: flags.split }
      const { limit, after } = flags
      const page = flags.all
        ? await collectPages((query) => client.models.logs(model.id, { ...split, ...query }, { signal }), { after })
        : await client.models.logs(model.id, { ...split, limit, after }, { signal })
      const { project, entity } = askedNamespace(config)
      return output.list(page, COLUMNS, {
        isWide: flags.wide,
        nextCommand: nextPageCommand(`models evaluations ${quoteWord(args.model)}`, page, {
          '--split': flags.split,
          '--limit': limit,
          '--project': project,
          '--entity': entity,
        }),
        empty: `nothing was logged of ${model.name} yet`,
      })
    }
    const query = { split: flags.split ?? 'val', a: from, b: to, limit: flags.show ?? SHOWN }
    const found = await client.models.compareLogs(model.id, query, { signal })
    if (found.skipped > 0) output.warning(`${plural(found.skipped, 'group')} not compared: too many, or too large`)
    output.result(found, describe(found), [formatNumber(found.difference)])
  },
})

/** Flags of the list and of the comparison say nothing of one another. */
function assertOneList(flags: {
  readonly from: number | undefined
  readonly show: number | undefined
  readonly after: string | undefined
  readonly all: boolean
}): void {
  if (flags.from === undefined && flags.show !== undefined) {
    throw new UsageError('conflicting_options', '--show counts prompts of a comparison, and none is asked for', {
      param: '--show',
      hint: '--from and --to name two steps; --limit says how many evaluations are listed',
    })
  }
  if (flags.from === undefined || (flags.after === undefined && !flags.all)) return
  const name = flags.all ? '--all' : '--after'
  throw new UsageError('conflicting_options', `${name} is for the list, and --from and --to ask for a comparison`, {
    param: name,
    hint: '--show says how many prompts of a comparison are shown',
  })
}

const COLUMNS: readonly Column<TrajectoryLog>[] = [
  { header: 'STEP', kind: 'number', get: ({ step }) => step },
  { header: 'SPLIT', get: ({ split }) => split },
  { header: 'REWARD', kind: 'number', get: ({ split, metrics }) => metrics[`${split}/reward`] },
  { header: 'PROMPTS', kind: 'number', get: ({ groups }) => groups, rank: 1 },
  { header: 'ANSWERS', kind: 'number', get: ({ trajectories }) => trajectories, rank: 2 },
  { header: 'LOGGED', kind: 'time', get: ({ created_at: at }) => at, rank: 3 },
]

function describe(found: LogComparison): string {
  const { wins, ties, losses, rewards, difference, interval, pairs, prompts, split } = found
  if (prompts === 0) return `No prompt of split ${split} was logged at both steps`
  const range = interval === null ? '' : `, 95% between ${interval.map((end) => formatNumber(end)).join(' and ')}`
  return [
    `${plural(prompts, 'prompt')} of ${split}: ${wins} better, ${ties} the same, ${losses} worse`,
    `Reward ${formatNumber(rewards[1])} against ${formatNumber(rewards[0])}; difference ${formatNumber(difference)}${range} (over prompts, paired)`,
    ...pairs.map(sayPair),
  ].join('\n\n')
}

function sayPair({ messages, answers, rewards, outcome }: LoggedPair): string {
  const asked = messages.at(-1)?.['content']
  const [was, is] = answers
  return [
    `  asked   ${lineOf(typeof asked === 'string' ? asked : JSON.stringify(asked ?? null))}`,
    `  before  ${lineOf(was?.[0]?.text ?? '')}`,
    `  after   ${lineOf(is?.[0]?.text ?? '')}`,
    `  reward  ${rewards.map((reward) => formatNumber(reward)).join(' → ')} ${outcome}`,
  ].join('\n')
}

function lineOf(text: string): string {
  return text === '' ? '(nothing)' : text.replaceAll(/\s*\n\s*/g, ' ⏎ ')
}
