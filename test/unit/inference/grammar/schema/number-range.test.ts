/**
 * Rules of bounded numbers, as regular expressions, against plain comparison.
 */
import { describe, expect, test } from 'vitest'
import { readNumber } from '#base/json/exact-number.js'
import { createRng } from '#base/util/rng.js'
import { integerRangeRule, type NumberRange, numberRangeRule } from '#inference/grammar/schema/number-range.js'

interface PlainRange {
  readonly minimum: number | null
  readonly maximum: number | null
  readonly exclusiveMinimum: number | null
  readonly exclusiveMaximum: number | null
}
const FREE: PlainRange = { minimum: null, maximum: null, exclusiveMinimum: null, exclusiveMaximum: null }

/** The rules use what regular expressions have too, apart from quotes and spaces. */
function toPattern(range: Partial<NumberRange>, toRule = numberRangeRule): RegExp | null {
  const rule = toRule({ ...FREE, ...range })
  if (rule === null) return null
  const pattern = rule.replace(/"([^"]*)"/g, (_, text: string) => text.replace(/[.-]/g, '\\$&')).replaceAll(' ', '')
  return new RegExp(`^(?:${pattern})$`)
}

const isInside = (value: number, range: PlainRange): boolean =>
  value >= (range.minimum ?? Number.NEGATIVE_INFINITY) &&
  value <= (range.maximum ?? Number.POSITIVE_INFINITY) &&
  value > (range.exclusiveMinimum ?? Number.NEGATIVE_INFINITY) &&
  value < (range.exclusiveMaximum ?? Number.POSITIVE_INFINITY)

describe('bounded numbers', () => {
  test.each<[Partial<NumberRange>, string[], string[]]>([
    [
      { minimum: 0, maximum: 1 },
      ['0', '1', '0.5', '1.0', '0.0', '0.99999999999999'],
      ['-0.1', '1.1', '01', '.5', '1.', '2'],
    ],
    [{ exclusiveMinimum: 0 }, ['0.00000000000001', '1', '123456789'], ['0', '0.0', '-1']],
    [{ exclusiveMaximum: -2.5 }, ['-2.51', '-3', '-100'], ['-2.5', '-2.49', '2.6']],
    [{ minimum: 0.1, maximum: 0.3 }, ['0.1', '0.10', '0.2', '0.3'], ['0.09', '0.31', '0']],
    [{ minimum: 1e-9, maximum: 2e-9 }, ['0.000000001', '0.0000000015'], ['0', '0.000000003']],
    [{ minimum: -5, maximum: 1e20 }, ['-5', '0', '999999999999999'], ['-5.1']],
  ])('%j', (range, inside, outside) => {
    const pattern = toPattern(range)
    expect(inside.filter((text) => pattern?.test(text) !== true)).toEqual([])
    expect(outside.filter((text) => pattern?.test(text) === true)).toEqual([])
  })

  test.each<[Partial<NumberRange>, string[], string[]]>([
    [
      { minimum: 0, maximum: readNumber('9223372036854775807') },
      ['0', '2512292042121000001', '9223372036854775807'],
      ['9223372036854775808', '-1', '10000000000000000000'],
    ],
    [
      { minimum: readNumber('2512292042121000001'), exclusiveMaximum: readNumber('2512292042121000004') },
      ['2512292042121000001', '2512292042121000003'],
      ['2512292042121000000', '2512292042121000004', '0'],
    ],
    [
      { exclusiveMinimum: readNumber('-9223372036854775808'), maximum: readNumber('5.0') },
      ['-9223372036854775807', '5', '-9007199254740993'],
      ['-9223372036854775808', '6', '5.0'],
    ],
    // beyond any integer type a bound is none, and what 64-bit floats hold exactly is left
    [{ minimum: 0, maximum: readNumber('1e400') }, ['9007199254740991'], ['9007199254740993']],
  ])('integers between bounds of more digits than a float has: %j', (range, inside, outside) => {
    const pattern = toPattern(range, integerRangeRule)
    expect(inside.filter((text) => pattern?.test(text) !== true)).toEqual([])
    expect(outside.filter((text) => pattern?.test(text) === true)).toEqual([])
  })

  test('ranges without a number of 15 digits have no rule', () => {
    expect(numberRangeRule({ ...FREE, minimum: 2, maximum: 1 })).toBeNull()
    expect(numberRangeRule({ ...FREE, exclusiveMinimum: 1, exclusiveMaximum: 1 })).toBeNull()
    expect(numberRangeRule({ ...FREE, minimum: 1e300 })).toBeNull()
  })

  test('integers: every one from -1200 to 1200 in random ranges', () => {
    const rng = createRng(9n)
    for (let trial = 0; trial < 60; trial++) {
      const maybe = (): number | null => (rng.uniform() < 0.6 ? Math.round((rng.uniform() - 0.5) * 2400) / 2 : null)
      const range = { ...FREE, minimum: maybe(), exclusiveMaximum: maybe() }
      const pattern = toPattern(range, integerRangeRule)
      const wrong = Array.from({ length: 2401 }, (_, i) => i - 1200).filter(
        (value) => (pattern?.test(String(value)) ?? false) !== isInside(value, range),
      )
      expect(wrong, JSON.stringify(range)).toEqual([])
      expect(['-', '', '-0', '00', '1.5'].filter((text) => pattern?.test(text))).toEqual([])
    }
  })

  test('random ranges and numbers near their bounds agree with comparison', () => {
    const rng = createRng(4n)
    const draw = (): number => {
      const values = [0, rng.uniform(), Math.round(rng.uniform() * 100) / 10, Math.round((rng.uniform() - 0.5) * 2000)]
      return (values[Math.floor(rng.uniform() * 4)] as number) * (rng.uniform() < 0.3 ? -1 : 1)
    }
    let checked = 0
    for (let trial = 0; trial < 400; trial++) {
      const maybe = (): number | null => (rng.uniform() < 0.4 ? draw() : null)
      const range = { minimum: maybe(), maximum: maybe(), exclusiveMinimum: maybe(), exclusiveMaximum: maybe() }
      const pattern = toPattern(range)
      const bounds = Object.values(range).filter((bound) => bound !== null)
      for (let i = 0; i < 30; i++) {
        const near = bounds[Math.floor(rng.uniform() * bounds.length)] ?? 0
        const steps = [0, 0.1, -0.1, 1, -1, 1e-9, -1e-9, 10 * near, draw()]
        const text = (near + (steps[Math.floor(rng.uniform() * steps.length)] ?? 0)).toFixed(
          Math.floor(rng.uniform() * 10),
        )
        if (/^-0(\.0*)?$/.test(text)) continue
        checked++
        expect(pattern?.test(text) ?? false, `${text} in ${JSON.stringify(range)}`).toBe(isInside(Number(text), range))
      }
    }
    expect(checked).toBeGreaterThan(5000)
  })
})
