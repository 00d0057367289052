/** Which checkpoints `--keep` keeps and `--step` means. */
import { describe, expect, test } from 'vitest'
import {
  applyKeepRules,
  findBest,
  formatSteps,
  parseKeepRule,
  parseStepChoice,
  selectCheckpoint,
} from '../../../../src/cli/input/checkpoint-selection.js'
import { checkpoint } from '../../../support/service/scripted-service.js'

const checkpoints = [
  checkpoint(0),
  checkpoint(1, { 'val/reward': 0.5, 'loss/train': 2 }),
  checkpoint(2, { 'val/reward': 0.7, 'loss/train': 1 }),
  checkpoint(3, { 'val/reward': 0.7, 'loss/train': 1.5 }),
  checkpoint(4),
]

describe('keep rules', () => {
  test('the union of the rules stays, the rest goes, the untrained step 0 always stays', () => {
    const { kept, deleted } = applyKeepRules(checkpoints, ['latest', 'best:val/reward'].map(parseKeepRule))
    expect([...kept.keys()]).toEqual([0, 3, 4])
    expect(kept.get(3)).toEqual(['best val/reward 0.7'])
    expect(deleted).toEqual([1, 2])
  })
  test('last and every', () => {
    expect(applyKeepRules(checkpoints, [parseKeepRule('last:2')]).deleted).toEqual([1, 2])
    expect(applyKeepRules(checkpoints, [parseKeepRule('every:2')]).deleted).toEqual([1, 3])
  })
  test('a metric no checkpoint has deletes nothing and names the metrics there are', () => {
    expect(() => applyKeepRules(checkpoints, [parseKeepRule('best:nope')])).toThrow(
      'no checkpoint has the metric "nope"',
    )
  })
  test('of equals the newest is best, and losses are better when smaller', () => {
    expect(findBest(checkpoints, 'val/reward').step).toBe(3)
    expect(findBest(checkpoints, 'loss/train').step).toBe(2)
  })
})

describe('step choice', () => {
  test('a number, latest, best', () => {
    expect(selectCheckpoint(checkpoints, parseStepChoice('2')).step).toBe(2)
    expect(selectCheckpoint(checkpoints, parseStepChoice('latest')).step).toBe(4)
    expect(selectCheckpoint(checkpoints, parseStepChoice('best')).step).toBe(3)
  })
  test('a missing step says which there are', () => {
    expect(() => selectCheckpoint(checkpoints, parseStepChoice('9'))).toThrow('step 9 was not found')
    expect(() => selectCheckpoint([], parseStepChoice('latest'))).toThrow('a checkpoint was not found')
  })
  test('steps read as ranges', () => {
    expect(formatSteps([3, 1, 2, 7])).toBe('1-3, 7')
    expect(formatSteps([])).toBe('')
  })
})
