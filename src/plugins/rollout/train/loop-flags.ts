/**
 * Flags of `train rl --prompts`, and what excludes what.
 */
import { flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { rolloutFlags } from '../flags.js'

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

/**
 * @param flags names of those that a line has
 * @throws {UsageError} where both are given or none, or a flag of the one stands beside the other
 */
export function assertOneSource(flags: ReadonlySet<string>): void {
  const [isFile, isLoop] = [flags.has('file'), flags.has('prompts')]
  if (!isFile && !isLoop) {
    throw new UsageError('missing_option', '--file with trajectory groups is required, or --prompts to sample them', {
      param: '--file',
      hint: 'trainyard rollout makes a file; trainyard help files shows the format',
    })
  }
  if (isFile && isLoop) {
    throw new UsageError(
      'conflicting_options',
      '--file trains on groups that are there, --prompts samples them: give one',
    )
  }
  const given = Object.entries(isLoop ? OF_FILE : OF_LOOP).find(([name]) => flags.has(name))
  if (given === undefined) return
  const [, name] = given
  throw new UsageError('conflicting_options', `${name} is for ${isLoop ? '--file' : '--prompts'} only`, {
    param: name,
    hint: isLoop ? 'a loop is followed to its end; leave it out' : 'trainyard rollout takes it, too',
  })
}
