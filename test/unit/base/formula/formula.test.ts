/**
 * Formulas: what a function becomes, what is refused of one that somebody sends, and that composing changes no value.
 */
import { describe, expect, it } from 'vitest'
import { evaluateFormula } from '#base/formula/evaluate.js'
import {
  composeFormula,
  type Formula,
  inputsOf,
  MAX_NODES,
  parseFormula,
  type Term,
  traceFormula,
} from '#base/formula/formula.js'

const at = (formula: Formula, inputs: Readonly<Record<string, readonly number[]>>, parts?: readonly number[]) =>
  Array.from(
    evaluateFormula(formula, {
      inputs,
      length: Object.values(inputs)[0]!.length,
      ...(parts === undefined ? {} : { parts }),
    }),
  )

describe('traceFormula', () => {
  it('notes what a function computes, without what it does not use', () => {
    const formula = traceFormula(['x', 'y'], ({ x }, { mul, add, exp }) => {
      exp(x)
      return add(mul(x, x), 1)
    })
    expect(formula.nodes).toEqual([
      ['input', 'x'],
      ['mul', 0, 0],
      ['number', 1],
      ['add', 1, 2],
    ])
    expect(at(formula, { x: [3, -1] })).toEqual([10, 2])
  })

  it.each<[string, Parameters<typeof traceFormula<'x'>>[1], RegExp]>([
    ['a number', () => 3, /returns 3/],
    ['nothing', () => undefined, /returns nothing/],
    ['a value of nobody', () => ({ at: 0 }), /returns \{"at":0\}/],
    ['an operand that is missing', ({ x }, { add }) => add(x), /gives add nothing/],
    ['arithmetic of the language', ({ x }, { exp }) => exp((x as unknown as number) * 2), /gives exp the number NaN/],
    ['an input that there is not', (_, { exp }) => exp((_ as unknown as { y: Term }).y), /gives exp nothing/],
    ['bounds that are values', ({ x }, { clip }) => clip(x, 0, x as unknown as number), /clips between 0 and/],
    ['bounds the wrong way round', ({ x }, { clip }) => clip(x, 1, 0), /clips between 1 and 0/],
  ])('refuses %s', (_, write, message) => {
    expect(() => traceFormula(['x'], write)).toThrow(message)
  })

  it('refuses a loop without an end', () => {
    const endless = (): Formula =>
      traceFormula(['x'], ({ x }, { add }) => {
        for (let sum = x; ; ) sum = add(sum, x)
      })
    expect(endless).toThrow(`more than ${MAX_NODES} operators`)
  })
})

describe('parseFormula', () => {
  const parse = (nodes: unknown) => parseFormula({ nodes } as never, ['x'], ['sequenceMean'])

  it('reads what a function became', () => {
    const formula = traceFormula(['x'], ({ x }, { clip, where, less, stop, sequenceMean, sub }) =>
      where(less(x, 0), sub(stop(x), sequenceMean(x)), clip(x, -1, 1)),
    )
    expect(parseFormula(JSON.parse(JSON.stringify(formula)), ['x'], ['sequenceMean'])).toEqual(formula)
  })

  it.each<[string, unknown, RegExp]>([
    ['no list', 'exp(x)', /"nodes", a list/],
    ['an empty list', [], /"nodes", a list/],
    ['too many', Array.from({ length: MAX_NODES + 1 }, () => ['number', 1]), /"nodes", a list/],
    [
      'an unknown operator',
      [
        ['input', 'x'],
        ['constructor', 0],
      ],
      /operators are add/,
    ],
    [
      'an inherited name',
      [
        ['input', 'x'],
        ['__proto__', 0],
      ],
      /operators are add/,
    ],
    ['an unknown input', [['input', 'y']], /inputs are x/],
    [
      'a reduction of another kind',
      [
        ['input', 'x'],
        ['groupMean', 0],
      ],
      /operators are add/,
    ],
    ['an operand behind itself', [['exp', 0]], /1 positions before its own/],
    [
      'a negative operand',
      [
        ['input', 'x'],
        ['exp', -1],
      ],
      /1 positions before its own/,
    ],
    [
      'half an operand',
      [
        ['input', 'x'],
        ['exp', 0.5],
      ],
      /1 positions before its own/,
    ],
    [
      'too few operands',
      [
        ['input', 'x'],
        ['add', 0],
      ],
      /2 positions before its own/,
    ],
    ['a number that is none', [['number', '1']], /one finite number/],
    ['an infinite number', [['number', Number.POSITIVE_INFINITY]], /one finite number/],
    [
      'a clip without bounds',
      [
        ['input', 'x'],
        ['clip', 0],
      ],
      /two finite bounds/,
    ],
    ['a node that is no list', [{ op: 'exp' }], /begins with an operator/],
  ])('refuses %s', (_, nodes, message) => {
    expect(() => parse(nodes)).toThrow(message)
  })
})

it('composes', () => {
  const outer = traceFormula(['r', 'a'], ({ r, a }, { mul, sub }) => sub(mul(r, a), r))
  const inner = traceFormula(['x', 'a'], ({ x, a }, { exp, sub }) => exp(sub(x, a)))
  const both = composeFormula(outer, { r: inner, unread: inner })
  expect(inputsOf(both).sort()).toEqual(['a', 'a', 'x'])
  const [x, a] = [
    [0.3, -1],
    [0.1, 2],
  ]
  expect(at(both, { x: x!, a: a! })).toEqual(
    x!.map((each, i) => Math.exp(each - a![i]!) * a![i]! - Math.exp(each - a![i]!)),
  )
})
