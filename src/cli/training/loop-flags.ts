/**
 * Flags of `train rl --prompts`, and what excludes what.
 */
import { flag } from '../command/flags.js'
import { rolloutFlags } from '../rollout/flags.js'
import { UsageError } from '../terminal/errors.js'

const { prompts: _, maxTokens, concurrency, retries, ...asking } = rolloutFlags
/** Where nobody says otherwise. */
export const [JOBS, PROMPTS, ANSWERS, HELD_OUT_ANSWERS] = [10, 16, 8, 4]

/** Absent ones are undefined: beside `--file` they would be without effect. */
export const loopFlags = {
  prompts: flag.text('--prompts <file>', 'prompts to sample and train on, in place of --file'),
  heldOut: flag.text('--held-out <file>', 'prompts to measure on; default every fourth of --prompts'),
  jobs: flag.integer(1, 1000)('--jobs <n>', `jobs at most; default ${JOBS}`),
  ...asking,
  maxTokens: flag.integer(1)(maxTokens.spelling, maxTokens.summary),
  count: flag.integer(2, 128)('-n <count>', `answers per prompt to train on, 2 to 128; default ${ANSWERS}`, {
    isAdvanced: true,
  }),
  samples: flag.integer(1, 128)('--samples <count>', `answers per held-out prompt; default ${HELD_OUT_ANSWERS}`, {
    isAdvanced: true,
  }),
  pick: flag.integer(1, 100_000)('--pick <n>', `prompts of a job, in turn; default ${PROMPTS}`, { isAdvanced: true }),
  concurrency: flag.integer(1, 512)(concurrency.spelling, concurrency.summary, { isAdvanced: true }),
  retries: flag.integer(0, 10)(retries.spelling, retries.summary, { isAdvanced: true }),
}
/** By the names they are given with. */
const OF_LOOP = {
  ...{ heldOut: '--held-out', jobs: '--jobs', reward: '--reward', grader: '--grader' },
  teachers: '--teacher',
  ...{ rewardRange: '--reward-range', system: '--system' },
  ...{ temperature: '--temperature', maxTokens: '--max-tokens', seed: '--seed', count: '-n', samples: '--samples' },
  ...{ map: '--map', pick: '--pick', concurrency: '--concurrency', retries: '--retries' },
} as const
const OF_FILE = { watch: '--watch', plan: '--plan', dryRun: '--dry-run', allowEmpty: '--allow-empty' } as const

type Given = { readonly file: string | undefined; readonly prompts: string | undefined } & {
  readonly [Name in keyof typeof OF_LOOP]: unknown
} & { readonly [Name in keyof typeof OF_FILE]: boolean }

/** @throws {UsageError} where both are given or none, or a flag of the one stands beside the other */
export function assertOneSource(flags: Given): void {
  const { file, prompts } = flags
  if (file === undefined && prompts === undefined) {
    throw new UsageError('missing_option', '--file with trajectory groups is required, or --prompts to sample them', {
      param: '--file',
      hint: 'trainyard rollout makes a file; trainyard help files shows the format',
    })
  }
  if (file !== undefined && prompts !== undefined) {
    throw new UsageError(
      'conflicting_options',
      '--file trains on groups that are there, --prompts samples them: give one',
    )
  }
  const others = Object.entries(prompts === undefined ? OF_LOOP : OF_FILE)
  const given = others.find(([name]) => {
    const value = flags[name as keyof Given]
    return value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0)
  })
  if (given === undefined) return
  const [, name] = given
  throw new UsageError('conflicting_options', `${name} is for ${prompts === undefined ? '--prompts' : '--file'} only`, {
    param: name,
    hint: prompts === undefined ? 'trainyard rollout takes it, too' : 'a loop is followed to its end; leave it out',
  })
}
