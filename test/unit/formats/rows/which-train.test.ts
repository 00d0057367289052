/**
 * Which groups train is what the advantages say, for every estimator and every shape of rewards.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { type AdvantageEstimator, countTraining, estimatorOf, whichTrain } from '#formats/rows/which-train.js'
import { advantagesOf } from '#training/rows/advantages.js'

describe('whichTrain', () => {
  it.each<[AdvantageEstimator]>([['group'], ['leave_one_out'], ['batch']])(
    '%s: a group trains where a trajectory of it has an advantage',
    (advantageEstimator) => {
      const rng = createRng(`which ${advantageEstimator}`)
      const pick = <T>(values: readonly T[]): T => values[rng.integer(values.length)] as T
      for (let i = 0; i < 3000; i += 1) {
        const values = pick([[0], [0, 1], [0.1, 0.2, 0.3], [-1, 0, 1e-13], [0.7, 0.7 + 1e-16, 0.1]])
        const groups = Array.from({ length: rng.integer(5) }, () =>
          Array.from({ length: rng.integer(4) }, () => pick(values)),
        )
        const advantages = advantagesOf(groups, { advantageEstimator, scaleRewards: pick([true, false]) })
        const trains = whichTrain(groups, advantageEstimator).map((reason) => reason === null)
        expect(trains, JSON.stringify(groups)).toEqual(advantages.map((each) => each.some((value) => value !== 0)))
        expect(countTraining(groups, advantageEstimator)).toBe(trains.filter(Boolean).length)
      }
    },
  )

  it('says why a group does not', () => {
    const groups = [[], [1], [1, 1], [0, 2], [0]]
    expect(whichTrain(groups)).toEqual(['empty', 'single_trajectory', 'equal_rewards', null, 'single_trajectory'])
    // the mean of all is 5 / 6
    expect(whichTrain(groups, 'batch')).toEqual(['empty', null, null, null, null])
    expect(whichTrain([[1], [0, 2], []], 'batch')).toEqual(['reward_is_mean', null, 'empty'])
    expect(whichTrain([[1], [1]], 'batch')).toEqual(['equal_rewards', 'equal_rewards'])
  })

  it('reads the estimator of a job as it goes over the wire', () => {
    const given = ['batch', 'leave_one_out', 'group', undefined, 7].map((advantage_estimator) =>
      estimatorOf({ advantage_estimator }),
    )
    expect(given).toEqual(['batch', 'leave_one_out', 'group', 'group', 'group'])
  })
})
