/**
 * `trainyard compare`: two models at the same prompts, in pairs.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { compareGroups, type Pair } from '../comparison.js'
import { sayExample } from '../examples.js'
import { rolloutFlags } from '../flags.js'
import { planRollout, sampleGroups, summarize } from '../sample.js'

export const compare = defineCommand({
  path: ['compare'],
  summary: 'Compare two models at the same prompts',
  details:
    'Prompts and rewards as for trainyard eval. A prompt is won by the model with the higher mean reward of its answers. The interval is of the mean difference, 95%, over prompts in pairs: where it holds 0, the difference may be chance. Nothing is stored.',
  examples: [
    ['trainyard compare orders:step1 orders --prompts held-out.jsonl', 'did the last jobs help?'],
    ['trainyard compare trainyard/spark orders --prompts held-out.jsonl -n 4 --json', 'against the base model'],
  ],
  namespace: ['project', 'entity'],
  args: {
    first: argument.required('the one to compare with: id, name, project/name, :stepN if wanted, or a base model'),
    second: argument.required('the one that is judged'),
  },
  flags: {
    ...rolloutFlags,
    count: flag.integer(1, 128)('-n, --samples <count>', 'answers per prompt, 1 to 128; default 1', { default: 1 }),
    show: flag.integer(0, 1000)('--show <n>', 'prompts shown at both ends, worst and best; default 2', { default: 2 }),
  },
  exits: ['not_found'],
  next: ['trainyard eval <model> --prompts held-out.jsonl'],
  async prepare(context) {
    return await planRollout(context, context.flags)
  },
  async run(context) {
    const { connect, output, args, flags, prepared: plan } = context
    const client = await connect()
    const served = [await resolveServed(context, client, args.first), await resolveServed(context, client, args.second)]
    const sampled = []
    for (const { name } of served) {
      const { groups } = await sampleGroups(context, client, { model: name, plan, count: flags.count, flags })
      summarize(context, groups)
      sampled.push(groups)
    }
    const [first = [], second = []] = sampled
    const { pairs, ...compared } = compareGroups([first, second], plan.rows)
    if (compared.prompts === 0) {
      throw new UsageError('rollouts_failed', 'no prompt was answered by both models, so nothing can be compared')
    }
    const worst = pairs.filter(({ rewards: [a, b] }) => b < a).slice(0, flags.show)
    const best = pairs
      .filter(({ rewards: [a, b] }) => b > a)
      .reverse()
      .slice(0, flags.show)
    const { wins, ties, losses, rewards, difference, interval } = compared
    const isSure = interval !== null && (interval[0] > 0 || interval[1] < 0)
    const range = interval === null ? '' : `, 95% between ${interval.map((end) => formatNumber(end)).join(' and ')}`
    const show = (title: string, shown: readonly Pair[]): readonly string[] =>
      shown.length === 0 ? [] : [title, ...shown.map(sayPair)]
    output.result(
      {
        first: args.first,
        second: args.second,
        ...compared,
        method: 'mean difference over prompts, paired',
        worst,
        best,
      },
      [
        `${args.second} against ${args.first} at ${plural(compared.prompts, 'prompt')}: ${plural(wins, 'win')}, ${plural(ties, 'tie')}, ${plural(losses, 'loss', 'losses')}`,
        `Reward ${formatNumber(rewards[1])} against ${formatNumber(rewards[0])}; difference ${formatNumber(difference)}${range} (over prompts, paired)${isSure ? '' : ': it may be chance'}`,
        ...show('Worst for it:', worst),
        ...show('Best for it:', best),
      ].join('\n\n'),
      [formatNumber(difference)],
    )
  },
})

function sayPair({ first, second, rewards }: Pair): string {
  const [was, is] = [sayExample(first), sayExample(second)].map((text) => text.split('\n'))
  const said = is?.find((line) => line.startsWith('  said')) ?? ''
  const asked = (was ?? [])
    .filter((line) => !line.startsWith('  reward'))
    .map((line) => line.replace('  said  ', '  first '))
  return [
    ...asked,
    said.replace('  said   ', '  second '),
    `  reward  ${formatNumber(rewards[0])}, ${formatNumber(rewards[1])}`,
  ].join('\n')
}
