/**
 * A training option is added by one row, and a kind of job by its definition, its folder and its checks: in a copy of the sources,
 * whose types are checked and whose program is run. Until a kind is complete nothing compiles.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copySources, type SourceCopy } from '../../support/source-copy.js'

const ROW = `bell_volume: {
    type: 'number',
    default: 0.5,
    bounds: { min: 0, max: 11 },
    needs: { any: ['kl_penalty_coef'], said: 'kl_penalty_coef' },
    flag: {},
    summary: 'how loud the bell is',
  },
  bell: { type: 'choice', default: 'large', choices: ['large', 'small'], summary: 'which bell rings' },
  `

/** A use of it: what is read has the types of the row. */
const USE = `/** Rings. */
import type { RlHyperparameters } from './rl-hyperparameters.js'

export function ring({ bellVolume, bell }: RlHyperparameters): number {
  const which: 'large' | 'small' = bell
  return which.length * bellVolume
}

// @ts-expect-error there is no such option
export const wrong = ({ bellTime }: RlHyperparameters) => bellTime
`

const EVALUATE = `
  import { recordOptions, resolveOptions } from './dist/src/contract/jobs/resolve.js'
  import { findUnusedOptions } from './dist/src/contract/jobs/unused-options.js'
  import { rlHyperparameters } from './dist/src/training/kinds/rl/rl-hyperparameters.js'
  import { ring } from './dist/src/training/kinds/rl/ring.js'
  const options = resolveOptions('rl', { bell_volume: '2' })
  let refusal = ''
  try { resolveOptions('rl', { bell_volume: 12, bell: 'huge' }) } catch (error) { refusal = error.message }
  const { bell_volume, bell } = recordOptions('rl', resolveOptions('rl', {}))
  const notes = findUnusedOptions('rl', { bell_volume: 2 }).map(({ message }) => message)
  console.log(JSON.stringify({ rings: ring(rlHyperparameters(options)), record: [bell_volume, bell], refusal, notes }))
`

const DEFINITION = `/** Jobs that say rows again. */
import { defineJobKind } from './kind.js'
import { defineOptions } from './option.js'
import { COMMON_OPTIONS } from './shared-options.js'

export const ECHO = defineJobKind({
  root: 'config',
  row: { noun: 'row', limit: 'the context of the model' },
  options: defineOptions({
    times: { type: 'integer', default: 3, bounds: { min: 1 }, summary: 'how often a row is said' },
    ...COMMON_OPTIONS,
  }),
  derive: (options) => options,
  referenceOf: () => null,
})
`
const OPEN = `/** How it is opened. */
import type { OpenJob, TrainingStart } from '../start.js'

export async function openEcho({ options, contextOf }: TrainingStart<'echo'>): Promise<OpenJob> {
  const times: number = options.times
  const { adapter, optimizer } = contextOf(options)
  return {
    plan: () => Promise.reject(new Error('nothing is planned')),
    async *train() {
      for (let step = 0; step < times; step += 1) yield { type: 'gradient_step', data: { loss: step } }
      return { adapter, optimizer, metrics: {} }
    },
  }
}
`
const CHECK = `echo: async (asked, request, use) => {
    const { options, ...checked } = await checkOptions('echo', asked, { ...request, config: withoutNulls(request.config ?? {}) })
    if (options.times > 100) throw new AppError('invalid_request', 'invalid_value', 'that often it is not said')
    const { exampleCount: _count, ...rows } = await receiveRows(asked, request, countPreferenceExamples)
    return await use({ ...checked, ...rows })
  },
  `

const WORDS = 'src/contract/wire/job-words.ts'
const DEFINITIONS = 'src/contract/jobs/kinds.ts'
const TRAINERS = 'src/training/kinds/kinds.ts'
const REQUESTS = 'src/service/operations/training/job-requests.ts'

let copy: SourceCopy
beforeAll(async () => {
  copy = await copySources()
})
afterAll(() => copy?.remove())

test('an option is checked, filled in, recorded, noted and read as its row says', async () => {
  await copy.insertBefore('src/contract/jobs/rl.ts', 'mask_truncated: {', ROW)
  await copy.write('src/training/kinds/rl/ring.ts', USE)
  expect(await copy.build()).toBe('')
  const help = await copy.run(['train', 'rl', '--help'])
  expect(help.stdout).toMatch(/--bell-volume <x> +how loud the bell is; default 0\.5\n/)
  const used = await copy.evaluate(EVALUATE)
  expect(used.stderr).toBe('')
  expect(JSON.parse(used.stdout)).toEqual({
    rings: 10,
    record: [0.5, 'large'],
    refusal: expect.stringMatching(/bell_volume.*bell/s),
    notes: ['experimental_config.bell_volume has no effect without kl_penalty_coef'],
  })
})

test('a kind compiles once its definition, its folder and its checks are there', async () => {
  await copy.insertBefore(WORDS, "'dpo'] as const", "'echo', ")
  const word = await copy.build()
  expect(word).toContain(DEFINITIONS)

  await copy.write('src/contract/jobs/echo.ts', DEFINITION)
  await copy.insertBefore(DEFINITIONS, 'import type { JobKindDefinition }', "import { ECHO } from './echo.js'\n")
  await copy.insertBefore(DEFINITIONS, 'dpo: DPO }', 'echo: ECHO, ')
  const defined = await copy.build()
  expect(defined).toContain(TRAINERS)
  expect(defined).toContain(REQUESTS)

  await mkdir(join(copy.path, 'src/training/kinds/echo'))
  await copy.write('src/training/kinds/echo/open-echo.ts', OPEN)
  const echo = "echo: async (start) => (await import('./echo/open-echo.js')).openEcho(start),\n  "
  await copy.insertBefore(TRAINERS, 'dpo: async (start)', echo)
  const trained = await copy.build()
  expect(trained).not.toContain(TRAINERS)
  expect(trained).toContain(REQUESTS)

  await copy.insertBefore(REQUESTS, 'readonly dpo: CreateDpoJobRequest', 'readonly echo: CreateDpoJobRequest\n  ')
  await copy.insertBefore(REQUESTS, 'dpo: async (asked', CHECK)
  expect(await copy.build()).toBe('')
})
