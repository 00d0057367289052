/** Texts of flags and arguments: what is accepted and what is refused. */
import { describe, expect, test } from 'vitest'
import { parseKeepRule, parseStepChoice } from '../../../../src/cli/input/checkpoint-selection.js'
import { parseAssignment, parseInteger, parseNumber, parseSteps } from '../../../../src/cli/input/parse.js'
import { parseModelReference } from '../../../../src/cli/names/model-reference.js'

describe('parse', () => {
  test.each([
    ['1,2,5-9', [1, 2, 5, 6, 7, 8, 9]],
    [' 3 , 1 ', [1, 3]],
    ['4-4,4', [4]],
  ])('steps: %s', (text, steps) => {
    expect(parseSteps(text)).toEqual(steps)
  })
  test.each(['', '5-2', 'a', '1,,2', '-1', '1-9999999', '1.5'])('steps: %j is refused', (text) => {
    expect(() => parseSteps(text)).toThrow('steps such as')
  })
  test('numbers: bounds, infinities and empty texts are refused', () => {
    expect(parseNumber('5e-6', 0)).toBe(5e-6)
    for (const text of ['', 'Infinity', 'NaN', '-1', 'x']) expect(() => parseNumber(text, 0)).toThrow()
    expect(parseInteger('20', 1, 100)).toBe(20)
    for (const text of ['0', '101', '1.5', '1e2', '']) expect(() => parseInteger(text, 1, 100)).toThrow('1 to 100')
  })
  test('assignments: JSON values, else text', () => {
    expect(parseAssignment('a=1e-5')).toEqual(['a', 1e-5])
    expect(parseAssignment('a=[1,2]')).toEqual(['a', [1, 2]])
    expect(parseAssignment('a=sequence')).toEqual(['a', 'sequence'])
    expect(parseAssignment('a=b=c')).toEqual(['a', 'b=c'])
    for (const text of ['a', '=1', '']) expect(() => parseAssignment(text)).toThrow('key=value')
  })
  test('keep rules and step choices', () => {
    expect(parseKeepRule('best:val/reward')).toEqual({ kind: 'best', metric: 'val/reward' })
    expect(parseKeepRule('last:3')).toEqual({ kind: 'last', count: 3 })
    for (const text of ['', 'last', 'last:0', 'every:x', 'newest', 'latest:1'])
      expect(() => parseKeepRule(text)).toThrow()
    expect(parseStepChoice('7')).toEqual({ kind: 'step', step: 7 })
    for (const text of ['', '-1', 'best:', 'first']) expect(() => parseStepChoice(text)).toThrow()
  })
})

describe('model references', () => {
  const none = { id: null, entity: null, project: null, step: null }
  test.each([
    ['email-agent', { ...none, name: 'email-agent' }],
    ['games/chess', { ...none, project: 'games', name: 'chess' }],
    ['me/games/chess:step3', { ...none, entity: 'me', project: 'games', name: 'chess', step: 3 }],
    ['wandb-artifact:///me/games/chess:v4', { ...none, entity: 'me', project: 'games', name: 'chess', step: 4 }],
    ['wandb-artifact://me/games/chess:latest', { ...none, entity: 'me', project: 'games', name: 'chess' }],
    ['odd:name', { ...none, name: 'odd:name' }],
    [
      '019a3c5e-0000-7000-8000-000000000001:step2',
      { ...none, id: '019a3c5e-0000-7000-8000-000000000001', name: '019a3c5e-0000-7000-8000-000000000001', step: 2 },
    ],
  ])('%s', (text, reference) => {
    expect(parseModelReference(text)).toEqual(reference)
  })
  test.each(['', '/', 'a//b', 'a/b/c/d', ':step3', 'a/'])('%j is refused', (text) => {
    expect(() => parseModelReference(text)).toThrow('is not a model name')
  })
})
