/**
 * Flags of commands that sample prompts. Loads nothing that samples.
 */

import { flag } from '#cli/command/flags.js'
import { ExpectedError } from '#cli/config/parse-value.js'
import type { ColumnMap } from '#cli/input/column-map.js'
import { mapFlag } from '#cli/training/flags.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { teacherFlag } from '#plugins/graders/flags.js'

/** Tokens of an answer where nobody says how many. */
export const LONGEST_ANSWER = 256

/** Flags of both commands; the number of answers differs. */
export const rolloutFlags = {
  prompts: flag.required(
    '--prompts <file>',
    'rows with prompt or messages (JSON Lines, JSON, CSV, TSV or Parquet), or a prompt per line; - for stdin',
    {
      what: 'what to ask',
      hint: 'a file with a prompt per line, or JSON Lines: {"prompt":"2+2?","answer":"4"}',
    },
  ),
  map: mapFlag,
  reward: flag.text(
    '--reward <exact|contains|file|command>',
    "compare with the row's answer (default exact), or your own",
  ),
  grader: flag.text('--grader <file>', 'score by a grader, a JSON file in OpenAI’s form, in place of --reward'),
  teachers: teacherFlag,
  rewardRange: flag.custom(parseRewardRange)(
    '--reward-range <least,most>',
    'what your own reward can be, for example 0,10; without it nothing is said to be solved',
  ),
  system: flag.text('--system <text>', 'system message'),
  temperature: flag.number(0, 2)('--temperature <x>', '0 to 2; default 1; what is sampled at 0 teaches nothing'),
  maxTokens: flag.integer(1)('--max-tokens <n>', 'tokens of the longest answer; default 256', {
    default: LONGEST_ANSWER,
  }),
  seed: flag.integer(0)('--seed <n>', 'the same seed gives the same answers', { isAdvanced: true }),
  concurrency: flag.integer(1, 512)(
    '--concurrency <n>',
    `answers side by side, 1 to 512; default ${SERVICE_DEFAULTS.maxConcurrentSequences}`,
    {
      default: SERVICE_DEFAULTS.maxConcurrentSequences,
      isAdvanced: true,
    },
  ),
  retries: flag.integer(0, 10)('--retries <n>', 'tries after a failed one, 0 to 10; default 1', {
    default: 1,
    isAdvanced: true,
  }),
}

export interface RolloutFlags {
  readonly prompts: string
  readonly map?: ColumnMap | undefined
  readonly reward: string | undefined
  readonly grader?: string | undefined
  readonly teachers?: readonly string[] | undefined
  readonly rewardRange?: RewardRange | undefined
  readonly system: string | undefined
  readonly temperature: number | undefined
  readonly maxTokens: number
  readonly seed: number | undefined
  readonly concurrency: number
  readonly retries: number
}

/** @throws {ExpectedError} for anything but two numbers that rise, as `0,1` or `-1,0` */
export function parseRewardRange(text: string): RewardRange {
  const parts = text.split(',').map((part) => (part.trim() === '' ? Number.NaN : Number(part)))
  const [least, most] = parts
  if (parts.length !== 2 || !isRange(parts)) {
    throw new ExpectedError('the least and the most that an answer can earn, for example 0,1 or -1,0')
  }
  return [least as number, most as number]
}

export function isRange(value: unknown): value is RewardRange {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [least, most] = value as readonly unknown[]
  return Number.isFinite(least) && Number.isFinite(most) && (least as number) < (most as number)
}
