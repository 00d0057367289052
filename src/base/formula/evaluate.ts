/**
 * Formulas in float64: their values, their derivatives by an input, and whether the two agree.
 */
import { differ } from '../differ.js'
import { type Formula, FormulaError, inputsOf, operandsOf } from './formula.js'
import { operatorOf } from './operators.js'

/** What a formula is computed on: numbers by the names of its inputs, all of one length. */
export interface FormulaData {
  readonly inputs: Readonly<Record<string, ArrayLike<number>>>
  readonly length: number
  /** The sequence, or group, that each place belongs to; default one for all. */
  readonly parts?: ArrayLike<number>
}

type Values = readonly Float64Array[]

/** @returns a number for each place */
export function evaluateFormula(formula: Formula, data: FormulaData): Float64Array {
  return valuesOf(formula, data, null).at(-1) ?? new Float64Array(data.length)
}

/**
 * The derivative of the sum over all places, each times its weight, by one input.
 *
 * @param weights default 1
 */
export function formulaGradient(
  formula: Formula,
  data: FormulaData,
  { of, weights }: { readonly of: string; readonly weights?: ArrayLike<number> },
): { readonly values: Float64Array; readonly gradient: Float64Array } {
  const { nodes } = formula
  const values = valuesOf(formula, data, null)
  const slopes = nodes.map(() => new Float64Array(data.length))
  slopes.at(-1)?.forEach((_, i, last) => {
    last[i] = weights?.[i] ?? 1
  })
  const gradient = new Float64Array(data.length)
  for (let at = nodes.length - 1; at >= 0; at--) {
    const node = nodes[at] as Formula['nodes'][number]
    const [name, ...rest] = node
    const slope = slopes[at] as Float64Array
    if (name === 'input' && rest[0] === of) add(gradient, slope)
    if (name === 'input' || name === 'number' || name === 'stop') continue
    const operands = operandsOf(node)
    if (name === 'sequenceMean') add(slopes[operands[0] as number] as Float64Array, meanOfParts(slope, data.parts))
    else if (name === 'batchSort') {
      const into = slopes[operands[0] as number] as Float64Array
      ascending(values[operands[0] as number] as Float64Array).forEach((from, i) => {
        into[from] = (into[from] as number) + (slope[i] as number)
      })
    } else if (name === 'clip') {
      const [x, low, high] = [values[operands[0] as number] as Float64Array, Number(rest[1]), Number(rest[2])]
      add(
        slopes[operands[0] as number] as Float64Array,
        slope.map((s, i) => ((x[i] as number) < low || (x[i] as number) > high ? 0 : s)),
      )
    } else {
      const { slopes: slopesAt } = operatorOf(name)
      for (let i = 0; i < data.length; i++) {
        const s = slope[i] as number
        if (s === 0) continue
        const by = slopesAt(operandsAt(values, operands, i), values[at]?.[i] as number)
        operands.forEach((operand, k) => {
          const into = slopes[operand] as Float64Array
          into[i] = (into[i] as number) + s * (by[k] as number)
        })
      }
    }
  }
  return { values: values.at(-1) ?? new Float64Array(data.length), gradient }
}

/** Step of central differences, and how far they may be off, in parts of the larger of the slope and 1. */
const [STEP, AGREES_WITHIN] = [1e-5, 1e-4]

/**
 * Compares the derivative by an input with central differences of the value, what `stop` holds still held still.
 *
 * @throws {FormulaError} where a value or slope is not finite, where they differ, and where no place's value follows from the
 *   input
 */
export function checkGradient(formula: Formula, data: FormulaData, of: string): void {
  if (!inputsOf(formula).includes(of)) throw new FormulaError(`does not read ${of}: nothing would be learned`)
  const { values, gradient } = formulaGradient(formula, data, { of })
  const held = valuesOf(formula, data, null)
  const given = Float64Array.from(data.inputs[of] as ArrayLike<number>)
  const totalAt = (i: number, step: number): number => {
    const moved = given.slice()
    moved[i] = (moved[i] as number) + step
    const inputs = { ...data.inputs, [of]: moved }
    return sum(valuesOf(formula, { ...data, inputs }, held).at(-1) as Float64Array)
  }
  for (let i = 0; i < data.length; i++) {
    const at = Object.entries(data.inputs)
      .map(([name, numbers]) => `${name} ${Number(numbers[i]?.toPrecision(4))}`)
      .join(', ')
    const [value, slope] = [values[i] as number, gradient[i] as number]
    if (!Number.isFinite(value) || !Number.isFinite(slope))
      throw new FormulaError(`is ${value} with slope ${slope} at ${at}`)
    const measured = (totalAt(i, STEP) - totalAt(i, -STEP)) / (2 * STEP)
    if (Math.abs(measured - slope) > AGREES_WITHIN * Math.max(1, Math.abs(slope))) {
      throw new FormulaError(`has the slope ${slope} by ${of} at ${at}, but central differences give ${measured}`)
    }
  }
  if (gradient.every((slope) => slope === 0))
    throw new FormulaError(`has slope 0 by ${of} everywhere: nothing would be learned`)
}

/** @param held values that `stop` gives in place of its operand's; null: its operand's */
function valuesOf({ nodes }: Formula, { inputs, length, parts }: FormulaData, held: Values | null): Values {
  const values: Float64Array[] = []
  for (const [at, node] of nodes.entries()) {
    const [name, ...rest] = node
    const operands = operandsOf(node)
    const x = values[operands[0] ?? -1] ?? new Float64Array(0)
    const made = (): Float64Array => {
      switch (name) {
        case 'input':
          return Float64Array.from(inputs[String(rest[0])] as ArrayLike<number>)
        case 'number':
          return new Float64Array(length).fill(Number(rest[0]))
        case 'stop':
          return held?.[at] ?? x
        case 'clip':
          return x.map((each) => Math.min(Math.max(each, Number(rest[1])), Number(rest[2])))
        case 'batchSort':
          return Float64Array.from(ascending(x), (from) => x[from] as number)
        case 'sequenceMean':
        case 'groupMean':
          return meanOfParts(x, parts)
        case 'groupDeviation':
          return deviationOfParts(x, parts)
        case 'batchMean':
          return meanOfParts(x, undefined)
        case 'batchDeviation':
          return deviationOfParts(x, undefined)
        default: {
          const { value } = operatorOf(name)
          return Float64Array.from({ length }, (_, i) => {
            const [a, b, c] = operandsAt(values, operands, i)
            return value(a, b, c)
          })
        }
      }
    }
    values.push(made())
  }
  return values
}

function operandsAt(values: Values, operands: readonly number[], i: number): readonly [number, number, number] {
  const at = (k: number): number => values[operands[k] ?? -1]?.[i] ?? 0
  return [at(0), at(1), at(2)]
}

/** Places by what stands there, the least first; equal ones in their order. */
const ascending = (values: Float64Array): number[] =>
  Array.from(values.keys()).sort((a, b) => (values[a] as number) - (values[b] as number) || a - b)

/** What a number per part says at each of its places. */
function spread(
  values: Float64Array,
  parts: ArrayLike<number> | undefined,
  of: (part: number[]) => number,
): Float64Array {
  const members = new Map<number, number[]>()
  values.forEach((value, i) => {
    const part = parts?.[i] ?? 0
    const known = members.get(part)
    if (known === undefined) members.set(part, [value])
    else known.push(value)
  })
  const said = new Map(Array.from(members, ([part, numbers]) => [part, of(numbers)]))
  return values.map((_, i) => said.get(parts?.[i] ?? 0) as number)
}

/** Of equal numbers their mean is each of them, to the last bit. */
const meanOf = (numbers: readonly number[]): number =>
  differ(numbers) ? numbers.reduce((total, each) => total + each, 0) / numbers.length : (numbers[0] ?? 0)

const meanOfParts = (values: Float64Array, parts: ArrayLike<number> | undefined): Float64Array =>
  spread(values, parts, meanOf)

const deviationOfParts = (values: Float64Array, parts: ArrayLike<number> | undefined): Float64Array =>
  spread(values, parts, (numbers) => {
    const mean = meanOf(numbers)
    return Math.sqrt(numbers.reduce((total, each) => total + (each - mean) ** 2, 0) / numbers.length)
  })

function add(into: Float64Array, more: Float64Array): void {
  for (let i = 0; i < into.length; i++) into[i] = (into[i] as number) + (more[i] as number)
}

const sum = (values: Float64Array): number => values.reduce((total, each) => total + each, 0)
