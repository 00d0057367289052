/**
 * Values and derivatives of every operator: derivatives by central differences, reductions by loops of their own; and what
 * the check refuses.
 */
import { describe, expect, it } from 'vitest'
import { checkGradient, evaluateFormula, formulaGradient } from '#base/formula/evaluate.js'
import { type FormulaMath, type Term, traceFormula } from '#base/formula/formula.js'
import { OPERATORS } from '#base/formula/operators.js'
import { createRng } from '#base/util/rng.js'

/** Numbers of one sequence each three, away from where operators have no derivative. */
const rng = createRng('formulas')
const length = 12
const x = Float64Array.from({ length }, () => 0.2 + 2 * rng.uniform())
const y = Float64Array.from({ length }, () => -0.3 - 2 * rng.uniform())
const parts = Int32Array.from({ length }, (_, i) => Math.floor(i / 3))
const inputs = { x, y }

const written: Readonly<Record<string, (x: Term, y: Term, math: FormulaMath) => Term>> = {
  ...Object.fromEntries(
    Object.entries(OPERATORS).map(([name, { arity }]) => [
      name,
      (a: Term, b: Term, math: FormulaMath) => {
        if (name === 'where') return math.where(math.less(a, 1), math.mul(a, b), math.exp(a))
        const operator = math[name as 'add']
        const made = arity === 1 ? operator(a) : operator(a, name === 'div' ? b : math.neg(b))
        // beside what has no slope something that has
        return name === 'less' || name === 'greater' ? math.mul(made, a) : made
      },
    ]),
  ),
  clip: (a, _, math) => math.clip(a, 0.5, 1.5),
  logSigmoid: (a, b, math) => math.logSigmoid(math.mul(a, b)),
  sequenceMean: (a, b, math) => math.mul(math.sequenceMean(math.mul(a, a)), b),
  stop: (a, b, math) => math.mul(math.stop(math.exp(a)), math.mul(a, b)),
}

describe('formulas in float64', () => {
  it.each(Object.entries(written))('%s has the slope of central differences', (_, write) => {
    const formula = traceFormula(['x', 'y'], ({ x: a, y: b }, math) => write(a, b, math))
    expect(() => checkGradient(formula, { inputs, length, parts }, 'x')).not.toThrow()
  })

  it('has means and deviations of groups and of all', () => {
    const reward = [1, 0, 0.25, 0.75, 3, 3, 3, 8]
    const groups = [0, 0, 0, 0, 1, 1, 1, 2]
    const of = (write: (reward: Term, math: FormulaMath) => Term) =>
      Array.from(
        evaluateFormula(
          traceFormula(['reward'], ({ reward: r }, math) => write(r, math)),
          { inputs: { reward }, length: 8, parts: groups },
        ),
      )
    const mean = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0) / numbers.length
    const deviation = (numbers: readonly number[]) =>
      Math.sqrt(mean(numbers.map((each) => (each - mean(numbers)) ** 2)))
    const grouped = (say: (numbers: readonly number[]) => number) =>
      reward.map((_, i) => say(reward.filter((_each, j) => groups[j] === groups[i])))
    expect(of((r, { groupMean }) => groupMean(r))).toEqual(grouped(mean))
    expect(of((r, { groupDeviation }) => groupDeviation(r))).toEqual(grouped(deviation))
    expect(of((r, { batchMean }) => batchMean(r))).toEqual(reward.map(() => mean(reward)))
    expect(of((r, { batchDeviation }) => batchDeviation(r))).toEqual(reward.map(() => deviation(reward)))
  })

  it('takes the mean of equal numbers to be each of them, to the last bit', () => {
    const formula = traceFormula(['reward'], ({ reward }, { sub, div, groupMean, groupDeviation, add }) =>
      div(sub(reward, groupMean(reward)), add(groupDeviation(reward), 1e-6)),
    )
    expect(Array.from(evaluateFormula(formula, { inputs: { reward: [0.1, 0.1, 0.1] }, length: 3 }))).toEqual([0, 0, 0])
  })

  it('weighs places', () => {
    const formula = traceFormula(['x'], ({ x: a }, { mul }) => mul(a, a))
    const { gradient } = formulaGradient(formula, { inputs, length }, { of: 'x', weights: x })
    expect(Array.from(gradient)).toEqual(Array.from(x, (each) => 2 * each * each))
  })

  it.each<[string, (x: Term, math: FormulaMath) => Term, RegExp]>([
    ['does not read it', (_, { exp, add }) => exp(add(1, 2)), /does not read x/],
    ['has no slope', (a, { stop }) => stop(a), /slope 0 by x everywhere/],
    ['is not finite', (a, { log, neg }) => log(neg(a)), /is NaN with slope/],
    [
      'jumps',
      (a, { where, less }) => where(less(a, x[3]!), 0, 1),
      /slope 0 by x at x .*, but central differences give/,
    ],
  ])('refuses what %s', (_, write, message) => {
    const formula = traceFormula(['x'], ({ x: a }, math) => write(a, math))
    expect(() => checkGradient(formula, { inputs: { x }, length }, 'x')).toThrow(message)
  })
})
