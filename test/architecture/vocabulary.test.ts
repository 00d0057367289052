/**
 * Closed lists are spelled once: the kinds of job, the states of one, the types of its events stand in `contract/wire`. Everything
 * else takes the list, or is a map over it that does not compile while a member is missing.
 */
import { describe, expect, test } from 'vitest'
import { SFT } from '#contract/jobs/sft.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import { EVENT_TYPES, JOB_KINDS, JOB_STATUSES } from '#contract/wire/job-words.js'
import { readSourceTree } from './source-tree.js'

const HOME = 'src/contract/wire/job-words.ts'

/** The kinds a demo shows are a choice among all kinds, checked against them by the compiler. */
const ALLOWED = new Set([HOME, 'src/plugins/demo/events.ts'])

/** Two members of a list written one after the other: a union or an array of them. */
function spelled(words: readonly string[]): RegExp {
  const word = `'(?:${words.join('|')})'`
  return new RegExp(`${word}\\s*(?:\\||,)\\s*${word}`)
}

const files = readSourceTree()

describe('defaults and bounds', () => {
  test.each([
    ['the port', String(SERVICE_DEFAULTS.port), 'src/contract/settings/service.ts'],
    ['pending requests', `\\b${SERVICE_DEFAULTS.maxPendingRequests},`, 'src/contract/settings/limits.ts'],
    ['learning rate of SFT', SFT.options.learning_rate.default.toExponential(), 'src/contract/jobs/sft.ts'],
    ['longest packed row', '131_072', 'src/contract/jobs/rl.ts'],
  ])('%s is written once', (_, spelling, home) => {
    const pattern = new RegExp(spelling)
    expect(files.filter((file) => pattern.test(file.code)).map((file) => file.path)).toEqual([home])
  })
})

describe('closed lists', () => {
  test('the kinds of job are listed in one place', () => {
    const pattern = spelled(JOB_KINDS)
    expect(
      files
        .filter((file) => pattern.test(file.code))
        .map((file) => file.path)
        .sort(),
    ).toEqual([...ALLOWED].sort())
  })

  test.each([
    ['states of a job', JOB_STATUSES],
    ['types of an event', EVENT_TYPES],
  ])('all %s are listed in one place', (_, words) => {
    const list = new RegExp(words.map((word) => `'${word}'`).join('\\s*[|,]\\s*'))
    expect(files.filter((file) => list.test(file.code)).map((file) => file.path)).toEqual([HOME])
  })

  test('nothing falls back to a kind of job', () => {
    const fallback = new RegExp(`\\?[^?\\n]*'(?:${JOB_KINDS.join('|')})'\\s*:\\s*'(?:${JOB_KINDS.join('|')})'`)
    const found = files.filter((file) => fallback.test(file.code)).map((file) => file.path)
    // `demo --sft` is a flag with two values
    expect(found).toEqual(['src/plugins/demo/command.ts'])
  })

  test('adding a kind of job touches few files', () => {
    const quoted = new RegExp(`'(?:${JOB_KINDS.join('|')})'|^\\s+(?:${JOB_KINDS.join('|')}):`, 'm')
    const naming = files.filter((file) => quoted.test(file.code) && !/\bdemo\b/.test(file.path))
    expect(naming.map((file) => file.path).sort()).toEqual([
      'commands/train/dpo.ts',
      'commands/train/rl.ts',
      'commands/train/sft.ts',
      // what other trainers call a loss of it
      'src/contract/jobs/dpo.ts',
      // the kind that has advantages
      'src/contract/jobs/losses.ts',
      // the kind whose rewards plugins change
      'src/contract/jobs/plugin-options.ts',
      HOME,
      // what rows are converted for
      'src/contract/wire/training/row-forms/purposes.ts',
      // a word of OpenAI's that happens to be ours
      'src/plugins/environments/commands/train.ts',
      'src/plugins/fine-tuning/to-openai.ts',
      'src/plugins/fine-tuning/wire.ts',
      // each loss is of a kind
      'src/plugins/literature/examples.ts',
      'src/plugins/literature/library.ts',
      'src/plugins/literature/policy.ts',
      'src/plugins/literature/preference.ts',
      // loops are made of jobs that learn from rewards
      'src/plugins/loops/commands/create.ts',
      'src/plugins/loops/loops.ts',
      // which tool makes which job
      'src/plugins/mcp/tools.ts',
      // a supervised job on answers of a teacher
      'src/plugins/page/browser/data/train/kinds.ts',
      // learns at the rate of rewards
      'src/plugins/rl-library/distill.ts',
      'src/plugins/rl-library/model.ts',
      'src/plugins/rollout/commands/tune.ts',
      'src/plugins/rollout/train/train-rl.ts',
      'src/plugins/teacher/command.ts',
      'src/plugins/teacher/distill-examples.ts',
      'src/service/http/routes/training-jobs.ts',
      'src/service/operations/training/job-requests.ts',
      'src/training/kinds/dpo/dpo-hyperparameters.ts',
      'src/training/kinds/dpo/open-dpo.ts',
      'src/training/kinds/kinds.ts',
      'src/training/kinds/rl/open-rl.ts',
      'src/training/kinds/rl/rl-hyperparameters.ts',
      'src/training/kinds/sft/open-sft.ts',
      'src/training/kinds/sft/sft-job.ts',
    ])
  })
})
