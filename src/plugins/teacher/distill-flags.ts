/**
 * Flags of `train distill` besides those of its teacher and of the job, and which of them have an effect with `--on-policy`.
 */

import { flag, longName } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { DISTILL_DEFAULTS } from '#plugins/rl-library/distill.js'

/** Questions side by side: hosted teachers limit them. */
export const DEFAULT_QUESTIONS = 8
/** Tokens of the longest answer, in either way. */
export const DEFAULT_ANSWER_TOKENS = DISTILL_DEFAULTS.maxTokens

export const DISTILL_FLAGS = {
  answers: flag.text('--answers <file>', "keeps the teacher's answers, to go on from; default distill-<model>.jsonl"),
  samples: flag.integer(1, 128)(
    '-n, --samples <count>',
    `answers per prompt, 1 to 128; default 1, with --on-policy ${DISTILL_DEFAULTS.samples}`,
  ),
  system: flag.text('--system <text>', 'system message for teacher and model'),
  maxTokens: flag.integer(1)('--max-tokens <n>', `tokens of the longest answer; default ${DEFAULT_ANSWER_TOKENS}`),
  temperature: flag.number(0, 2)(
    '--temperature <x>',
    "0 to 2; default the teacher's own, of a model here 0, or 1 for several",
  ),
  reward: flag.text(
    '--reward <exact|contains|file|command>',
    'train on the best answers to a prompt only, as for rollout',
  ),
  minReward: flag.number()('--min-reward <x>', 'and on none with less; default whatever is above 0'),
  concurrency: flag.integer(1, 512)('--concurrency <n>', `questions side by side; default ${DEFAULT_QUESTIONS}`, {
    isAdvanced: true,
  }),
  onPolicy: flag.switch('--on-policy', 'the model answers, a teacher of this service says how likely each token is'),
  steps: flag.integer(1, 100_000)(
    '--steps <n>',
    `updates of --on-policy, of ${DISTILL_DEFAULTS.promptsPerStep} prompts each; default ${DISTILL_DEFAULTS.steps}`,
  ),
}

/** What says something with `--on-policy`. */
const OF_ON_POLICY: ReadonlySet<string> = new Set([
  'prompts',
  'teacher',
  'samples',
  'system',
  'maxTokens',
  'onPolicy',
  'steps',
  'learning_rate',
])

/** @throws {UsageError} `conflicting_options` for a flag that would be without effect */
export function refuseWithOnPolicy(flags: Readonly<Record<string, unknown>>): void {
  const [name] =
    Object.entries(flags).find(
      ([key, value]) =>
        !OF_ON_POLICY.has(key) &&
        value !== undefined &&
        value !== false &&
        !(Array.isArray(value) && value.length === 0),
    ) ?? []
  if (name === undefined) return
  const known = Object.entries(DISTILL_FLAGS).find(([key]) => key === name)?.[1]
  const spelled =
    known === undefined
      ? `--${name.replaceAll('_', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
      : longName(known.spelling)
  throw new UsageError('conflicting_options', `${spelled} has no effect with --on-policy`, {
    param: spelled,
    hint: 'leave one of them out: trainyard train distill --help says what each is for',
  })
}
