/**
 * What a job would do, as `train … --plan` shows it: facts, groups, sequences, and which tokens of the first ones train.
 */
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import { formatBytes, formatDuration, formatNumber, plural } from './format.js'
import { describeLeftOut } from './job-report.js'
import type { Output } from './output.js'
import type { Column } from './table.js'

/** How many groups, sequences and masks a person reads; `--json` has more. */
const SHOWN_GROUPS = 10
const SHOWN_SEQUENCES = 10
const SHOWN_MASKS = 2
const SHOWN_ADVANTAGES = 8

/** Prints a plan: tables and facts for people, the object for `--json`, nothing to name for `--quiet`. */
export function showPlan(output: Output, plan: TrainingPlan, modelName: string): void {
  output.record(plan, plan.model_id, planFacts(plan, modelName))
  if (output.mode !== 'human') return
  for (const warning of plan.warnings) output.warning(warning)
  showRows(output, plan.groups.slice(0, SHOWN_GROUPS), GROUP_COLUMNS, plan.num_groups, 'group')
  showRows(output, plan.sequences.slice(0, SHOWN_SEQUENCES), SEQUENCE_COLUMNS, plan.num_sequences, 'sequence')
  for (const sequence of plan.sequences.slice(0, SHOWN_MASKS)) {
    output.event(null, `\n${sequence.source}`)
    for (const span of sequence.spans) {
      output.event(
        null,
        `  ${span.is_trained ? 'trains' : '      '} ${String(span.tokens).padStart(5)}  ${lineOf(span.text)}`,
      )
    }
  }
}

/** Names and values. */
export function planFacts(plan: TrainingPlan, modelName: string): (readonly [string, string])[] {
  const { memory, time, refusal } = plan
  // servers of before have no such field
  const kwargs = plan.chat_template_kwargs ?? {}
  const needed = memory.needed_bytes === null ? 'too much' : `about ${formatBytes(memory.needed_bytes)}`
  const available = memory.available_bytes === null ? '' : `, ${formatBytes(memory.available_bytes)} free`
  return [
    ['Plan', `${plan.kind} for ${modelName}; nothing was started`],
    ['Steps', plural(plan.num_gradient_steps, 'gradient step')],
    [
      'Rows',
      plan.num_rows === 0 ? 'none' : `${plan.num_rows}, at most ${memory.rows} of ${memory.row_length} tokens at once`,
    ],
    ['Tokens', `${plan.trained_tokens} trained of ${plan.tokens}`],
    ...(Object.keys(kwargs).length === 0 ? [] : [['Template', JSON.stringify(kwargs)] as const]),
    ...describeLeftOut(plan.left_out),
    ['Memory', `${needed} beside the weights${available}${memory.is_recomputed === true ? ', layers recomputed' : ''}`],
    ...(refusal === null ? [] : [['Refused', `${refusal.message} (${refusal.code})`] as const]),
    ['Time', describeTime(time)],
  ]
}

function describeTime({ predicted_seconds: seconds, basis, tokens_per_second: rate }: TrainingPlan['time']): string {
  if (seconds === null) return 'not known'
  if (basis === null) return 'nothing to train on'
  const source = basis === 'calibration' ? 'measured for two seconds' : 'as the last job of this size took'
  const pace = rate === null ? '' : `, ${formatNumber(Math.round(rate))} tokens/s`
  return `about ${formatDuration(seconds * 1000)}${pace}, ${source}`
}

const GROUP_COLUMNS: readonly Column<TrainingPlan['groups'][number]>[] = [
  { header: 'GROUP', kind: 'number', get: (group) => group.index },
  { header: 'REWARD', kind: 'number', get: (group) => group.mean_reward },
  { header: 'STD', kind: 'number', get: (group) => group.reward_std_dev },
  { header: 'ADVANTAGES', canShrink: true, get: ({ advantages }) => advantagesOf(advantages) },
  { header: 'LEFT OUT', get: (group) => group.left_out?.replaceAll('_', ' ') ?? '' },
]

const SEQUENCE_COLUMNS: readonly Column<TrainingPlan['sequences'][number]>[] = [
  { header: 'SEQUENCE', canShrink: true, get: (sequence) => sequence.source },
  { header: 'TOKENS', kind: 'number', get: (sequence) => sequence.tokens },
  { header: 'TRAINED', kind: 'number', get: (sequence) => sequence.trained_tokens },
  { header: 'ADVANTAGE', kind: 'number', get: (sequence) => sequence.advantage },
  { header: 'WEIGHT', kind: 'number', get: (sequence) => sequence.weight },
]

function advantagesOf(advantages: readonly number[]): string {
  const shown = advantages.slice(0, SHOWN_ADVANTAGES).map((advantage) => formatNumber(advantage))
  return `${shown.join(' ')}${advantages.length > SHOWN_ADVANTAGES ? ' …' : ''}`
}

function showRows<T>(
  output: Output,
  rows: readonly T[],
  columns: readonly Column<T>[],
  count: number,
  noun: string,
): void {
  if (rows.length === 0) return
  output.event(null, '')
  output.rows(null, rows, columns, () => '')
  if (count > rows.length)
    output.status(`${plural(count - rows.length, `more ${noun}`, `more ${noun}s`)}; --json shows more`)
}

/** Characters of a mask's text on one line of 80 columns. */
const LINE_CHARACTERS = 62

/** A span on one line: line breaks as `\n`, its middle left out. */
function lineOf(text: string): string {
  const line = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  if (line.length <= LINE_CHARACTERS) return line
  const half = Math.floor((LINE_CHARACTERS - 3) / 2)
  return `${line.slice(0, half)} … ${line.slice(-half)}`
}
