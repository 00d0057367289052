/**
 * `trainyard jobs trajectory`: one trajectory a job trained on, turn by turn, or token by token with the numbers the trainer used.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseInteger } from '#cli/input/parse.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber } from '#cli/terminal/format.js'
import type { Column } from '#cli/terminal/table.js'
import type { RolloutTokens, RolloutTrajectory } from '#contract/wire/training/rollouts.js'
import type { Client } from '#sdk/client/client.js'
import type { TrajectoryPlace } from '#sdk/client/rollouts.js'

/** Tokens that are asked for at once. */
const PART = 4096

/** A token with its numbers. */
interface TokenRow {
  readonly at: number
  readonly tokens: RolloutTokens
  /** Place in that part. */
  readonly i: number
  readonly score: number | null
}

const number = (header: string, get: (row: TokenRow) => number | null | undefined): Column<TokenRow> => ({
  header,
  kind: 'number',
  get,
})

const columns: readonly Column<TokenRow>[] = [
  number('at', ({ at }) => at),
  number('id', ({ tokens, i }) => tokens.ids[i]),
  { header: 'text', get: ({ tokens, i }) => JSON.stringify(tokens.texts[i] ?? `\\x${tokens.bytes[i] ?? ''}`) },
  { header: 'trains', get: ({ tokens, i }) => (tokens.is_trained[i] === true ? 'yes' : '') },
  number('sampler', ({ tokens, i }) => tokens.sampler_logprob[i]),
  number('learner', ({ tokens, i }) => tokens.learner_logprob[i]),
  number('ratio', ({ tokens, i }) => tokens.ratio[i]),
  { header: 'clipped', get: ({ tokens, i }) => (tokens.is_clipped[i] === true ? 'yes' : '') },
  number('entropy', ({ tokens, i }) => tokens.entropy[i]),
]

export const jobTrajectory = defineCommand({
  path: ['jobs', 'trajectory'],
  summary: 'Show one trajectory a job trained on',
  details:
    'Turn by turn, or with --tokens the log-probabilities, ratio and entropy the trainer used; --under scores the same tokens with a checkpoint of the model. Log-probabilities are natural.',
  examples: [
    ['trainyard jobs trajectory latest 0 3', 'the fourth member of the first group of the newest job'],
    ['trainyard jobs trajectory 4c1d009c 0 3 --tokens', 'its tokens with the numbers of the trainer'],
    ['trainyard jobs trajectory 4c1d009c 0 3 --tokens --under 7', 'and what step 7 gives them'],
  ],
  args: {
    job: argument.required(JOB_ARGUMENT),
    group: argument.required('index of the group, from 0'),
    trajectory: argument.required('index of the trajectory in it, from 0'),
  },
  flags: {
    tokens: flag.switch('--tokens', 'token by token'),
    sequence: flag.integer(0)(
      '--sequence <n>',
      'whose tokens, where it was cut into several sequences, from 0; default 0',
    ),
    under: flag.text('--under <step>', 'score the tokens with this checkpoint: a step, or latest; 0 is the base model'),
  },
  exits: ['not_found'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const { sequence = 0, under } = flags
    if (flags.sequence !== undefined && !flags.tokens && under === undefined) {
      throw new UsageError('conflicting_options', '--sequence chooses whose tokens are shown, and none are asked for', {
        param: '--sequence',
        hint: 'add --tokens, or --under with a step',
      })
    }
    const [group, trajectory] = [parseInteger(args.group, 0), parseInteger(args.trajectory, 0)]
    const client = await connect()
    const place = { jobId: await resolveJobId(context, client, args.job), group, trajectory }
    if (!flags.tokens && under === undefined) {
      const found = await client.rollouts.trajectory(place, { signal })
      if (output.mode !== 'human') return output.record(found, found.id, [])
      return output.record(found, found.id, describe(found))
    }
    const rows: TokenRow[] = []
    const parts: RolloutTokens[] = []
    let step: number | undefined
    for await (const { tokens, scores } of readParts(client, place, { sequence, under, signal })) {
      parts.push(tokens)
      step ??= scores?.step
      tokens.ids.forEach(
        (_, i) => void rows.push({ at: tokens.from + i, tokens, i, score: scores?.logprob[i] ?? null }),
      )
    }
    const scored = step === undefined ? [] : [number(`step ${step}`, ({ score }) => score)]
    const json = parts.map((tokens) => ({
      ...tokens,
      ...(step === undefined
        ? {}
        : { scores: { step, logprob: rows.slice(tokens.from, tokens.to).map(({ score }) => score) } }),
    }))
    output.rows(json, rows, [...columns, ...scored], ({ at }) => String(at))
    const [first] = parts
    if (first === undefined) return
    const { advantage, weight, gradient_step: trainedIn } = first
    output.status(
      `advantage ${advantage === null ? 'none' : formatNumber(advantage)}, weight ${weight === null ? 'none' : formatNumber(weight)}, trained in gradient step ${trainedIn}`,
    )
  },
})

async function* readParts(
  client: Client,
  place: TrajectoryPlace,
  {
    sequence,
    under,
    signal,
  }: { readonly sequence: number; readonly under: string | undefined; readonly signal: AbortSignal },
) {
  for (let from = 0; ; from += PART) {
    const range = { sequence, from, to: from + PART }
    const tokens = await client.rollouts.tokens(place, range, { signal })
    const scores =
      under === undefined ? null : await client.rollouts.scores(place, { ...range, step: under }, { signal })
    yield { tokens, scores }
    if (tokens.to >= tokens.length) return
  }
}

function describe(found: RolloutTrajectory): (readonly [string, string])[] {
  const { histories, advantage, left_out: reason } = found
  return [
    ['Reward', formatNumber(found.reward)],
    ['Advantage', advantage === null ? `none: ${reason ?? 'it does not train'}` : formatNumber(advantage)],
    ['Tokens', `${found.tokens} train, in ${found.sequences.length} sequences`],
    ...histories.flatMap(({ messages }, h) =>
      messages.map(({ message, is_sampled: isSampled, finish_reason: end }) => {
        const { role, content, tool_calls: calls } = message
        const said = typeof content === 'string' ? content : content == null ? '' : JSON.stringify(content)
        const text = [said, calls == null ? '' : JSON.stringify(calls)].filter((part) => part !== '').join('\n')
        const name = `${h === 0 ? '' : `${h}: `}${String(role)}${isSampled ? '*' : ''}`
        return [name, end === 'length' ? `${text} [cut off]` : text] as const
      }),
    ),
  ]
}
