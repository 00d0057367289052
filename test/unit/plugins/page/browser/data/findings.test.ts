/** What was found about jobs, and the pages that do what it says. */
import { expect, test } from 'vitest'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { deedsOf, newestFindings } from '../../../../../../src/plugins/page/browser/data/findings.js'

const MODEL = { id: 'm', project: 'default', name: 'ask back' } as Model
const job = (step: number, warnings: readonly string[]) =>
  ({
    id: `job${step}`,
    kind: 'rl',
    step,
    warnings,
    config: { experimental_config: { loss: 'cispo' } },
    resolved_config: { learning_rate: 1e-3 },
  }) as unknown as TrainingJob

const RARE = (percent: number) =>
  `${percent}% of the answers earn something; show it good answers first (train sft on examples, or train distill with a stronger model): rewards raise what is right now and then`

test('of each kind the newest is shown, and of how many jobs it is said', () => {
  const found = newestFindings([
    job(9, [RARE(1.5), 'the gradient was clipped']),
    job(8, [RARE(0.7)]),
    job(7, [RARE(2)]),
  ])
  expect(found.map(({ sentence, job: { step }, jobs }) => [sentence.slice(0, 4), step, jobs])).toEqual([
    ['1.5%', 9, 3],
    ['the ', 9, 1],
  ])
})

test('a sentence has the deeds that it names, filled in', () => {
  const deeds = (sentence: string) => {
    const [found] = newestFindings([job(9, [sentence])])
    return found === undefined ? [] : deedsOf(found, MODEL)
  }
  expect(deeds(RARE(1))).toEqual([
    { title: 'Train on good answers first', path: '/train?kind=sft&m=default%2Fask+back' },
  ])
  const [lower] = deeds('the loss rises; lower learning_rate, and look at the data')
  expect(lower?.title).toBe('Lower the rate to 3e-4')
  expect(new URLSearchParams(lower?.path.split('?')[1]).get('m')).toBe('default/ask back')
  expect(lower?.path).toContain('learning_rate=0.0003')
  expect(lower?.path).toContain('loss=cispo')
  const [back] = deeds('it fell; train from step 4 at 3e-4: models create --from-checkpoint <model>:step4 begins there')
  expect(back).toMatchObject({ title: 'Go back to step 4 with rate 3e-4', from: 4 })
  expect(deeds('5e-6 hardly moves it: 1e-3 was measured for this size')[0]?.title).toBe('Take the rate 1e-3')
  expect(deeds('nothing to do here')).toEqual([])
})
