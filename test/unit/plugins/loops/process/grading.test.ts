/** The most that a grader gives, against the reward of every corner by hand. */
import { expect, test } from 'vitest'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { bestReward } from '../../../../../src/plugins/loops/process/grading.js'

const check = { type: 'string_check', name: 'right', input: '{{sample.output_text}}', reference: 'x', operation: 'eq' }
const judge = {
  type: 'score_model',
  name: 'judge',
  model: 'm',
  range: [-2, 5],
  input: [{ role: 'user', content: 'x' }],
}
const code = { type: 'python', name: 'code', source: 'def grade(sample, item):\n    return 1.0\n' }
const multi = (graders: object, calculate_output: string) => ({ type: 'multi', graders, calculate_output })

test.each([
  ['a check', check, 1],
  ['a range', judge, 5],
  ['a program', code, null],
  ['a sum', multi({ right: check, judge }, 'right + 0.5 * judge'), 3.5],
  ['what is taken off', multi({ right: check, judge }, 'right - judge'), 3],
  ['a product of negatives', multi({ judge, other: { ...judge, name: 'other' } }, 'judge * other'), 25],
  ['a part that is a program', multi({ right: check, code }, 'right + code'), null],
  ['no number anywhere', multi({ right: check }, 'log(right - 2)'), null],
])('%s', (_, grader, best) => {
  expect(bestReward(readGrader(grader))).toBe(best)
})
