/**
 * Graders by vectors: strings, templates, formulas and several together; those of similarity are in `similarity.test.ts` beside it.
 */
import { describe, expect, it } from 'vitest'
import { parseExact } from '#base/json/exact-json.js'
import type { JsonObject } from '#base/util/json.js'
import { checkGrader, pathsOfNoRow } from '#plugins/graders/grading/check.js'
import { readFormula } from '#plugins/graders/grading/formula.js'
import { grade } from '#plugins/graders/grading/grade.js'
import { ERROR_FLAGS, toErrorFields } from '#plugins/graders/grading/grade-errors.js'
import { toSample } from '#plugins/graders/grading/sample.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { pathsOf, render } from '#plugins/graders/grading/template.js'

const check = (input: string, reference: string, operation: string): JsonObject => ({
  type: 'string_check',
  name: 'check',
  input,
  reference,
  operation,
})
const run = (spec: JsonObject, given: string | JsonObject = '', item: JsonObject = {}) =>
  grade(readGrader(spec), { item, sample: toSample(given) })
const refusal = (act: () => unknown): { readonly message: string; readonly param: string } => {
  try {
    act()
  } catch (error) {
    return error as never
  }
  throw new Error('nothing was refused')
}

describe('string_check', () => {
  it.each([
    ['eq', 'Paris', 'Paris', 1],
    ['eq', 'paris', 'Paris', 0],
    ['eq', ' Paris', 'Paris', 0],
    ['ne', 'Paris', 'Paris', 0],
    ['ne', 'paris', 'Paris', 1],
    ['neq', 'paris', 'Paris', 1],
    ['like', 'It is Paris.', 'Paris', 1],
    ['like', 'It is paris.', 'Paris', 0],
    ['like', 'Paris', 'It is Paris.', 0],
    ['ilike', 'It is paris.', 'PARIS', 1],
    ['ilike', 'It is Rome.', 'PARIS', 0],
    ['ilike', 'straße ÄÖÜ', 'äöü', 1],
  ])('%s: %s against %s is %d', async (operation, input, reference, reward) => {
    expect(
      await run(check('{{sample.output_text}}', '{{ item.answer }}', operation), input, { answer: reference }),
    ).toEqual({ reward, parts: {}, passes: {}, errors: [], usage: {} })
  })
})

describe('templates', () => {
  const item = parseExact(
    '{"a":{"b":[{"c":"deep"}],"k e y":true},"none":null,"id":12345678901234567890,"price":5.0,"list":[1,2.0,"x"],"braces":"{{item.none}}"}',
  ) as JsonObject
  const sample = toSample('{"city":"Rome","n":[1.0]}')
  it.each([
    ['{{ item.a.b[0].c }}', 'deep'],
    ['{{item.a[\'k e y\']}} and {{item["a"].b[0].c}}', 'true and deep'],
    ['{{item.id}}', '12345678901234567890'],
    ['{{item.price}}', '5.0'],
    ['{{item.list}}', '[1,2.0,"x"]'],
    ['<{{item.braces}}>', '<{{item.none}}>'],
    ['{{sample.output_json.city}} {{sample.output_json.n}}', 'Rome [1.0]'],
    ['{{ sample.output_text }}', '{"city":"Rome","n":[1.0]}'],
    ['{ {item.a} } }} {{\n sample.choices[0].message.role \n}}', '{ {item.a} } }} assistant'],
    ['{{sample.output_tools}}', '[]'],
  ])('%s is %s', (template, text) => {
    expect(render(template, { item, sample })).toBe(text)
  })

  it.each([
    'item.gone',
    'item.none',
    'item.none.deeper',
    'item.a.b[1]',
    'item.a.b.length',
    'item.id.x',
    'sample.output_audio',
  ])('{{%s}} is invalid_variable_error', async (path) => {
    const { reward, errors } = await grade(readGrader(check(`{{${path}}}`, '', 'like')), { item, sample })
    expect(reward).toBe(0)
    expect(errors).toMatchObject([{ flag: 'invalid_variable_error', grader: 'check' }])
    expect(errors[0]?.message).toContain(path)
  })

  it.each(['item', 'row.answer', 'item..a', 'item.a | upper', '__proto__.x', 'item[-1]', ''])(
    '{{%s}} is refused',
    (text) => {
      expect(() => pathsOf(`{{${text}}}`)).toThrow(/names nothing/)
      expect(refusal(() => checkGrader(readGrader(check('', `{{${text}}}`, 'eq')))).param).toBe('grader.reference')
    },
  )

  it('does not reach what objects inherit', async () => {
    const { errors } = await run(check('{{item.constructor.name}}', '', 'like'), '', {})
    expect(errors.map(({ flag }) => flag)).toEqual(['invalid_variable_error'])
  })

  it('an answer that is no JSON is sample_parse_error where its JSON is named', async () => {
    const { reward, errors } = await run(check('{{sample.output_json.x}}', '', 'like'), 'no json')
    expect([reward, errors.map(({ flag }) => flag)]).toEqual([0, ['sample_parse_error']])
  })

  it('calls of tools are in an answer of chat', async () => {
    const calls = [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{"x":1}' } }]
    const given = { choices: [{ index: 0, message: { role: 'assistant', content: null, tool_calls: calls } }] }
    const spec = check(
      '{{sample.output_tools[0].function.name}} {{sample.output_tools[0].function.arguments}}',
      'look {"x":1}',
      'eq',
    )
    expect((await run(spec, given)).reward).toBe(1)
  })
})

describe('formulas', () => {
  const values = new Map(Object.entries({ a: 0.5, b: 2, _c1: 3 }))
  it.each([
    ['a + b * 3 - 1', 5.5],
    ['-2^2', -4],
    ['2^3^2', 512],
    ['2^-1 * (a + b)', 1.25],
    ['min(a, b, _c1) + max(a, b)', 2.5],
    ['floor(a) + ceil(a) + abs(-b)', 3],
    ['sqrt(4) + log(exp(1)) - 1e-3', 2.999],
    ['b / _c1 / 2', 1 / 3],
  ])('%s is %d', (text, value) => {
    expect(readFormula(text).compute(values)).toBeCloseTo(value, 12)
  })

  it.each([
    '',
    'a b',
    '1 +',
    '(a',
    'sqrt(1, 2)',
    'eval(1)',
    'a; b',
    'constructor(1)',
    '1..2',
    `${'('.repeat(200)}1`,
    '--'.repeat(100),
  ])('%s is refused', (text) => {
    expect(() => readFormula(text)).toThrow()
  })
})

describe('multi', () => {
  const parts = (...operations: readonly string[]): JsonObject =>
    Object.fromEntries(operations.map((operation, i) => [`g${i}`, check('{{sample.output_text}}', 'yes', operation)]))
  const multi = (graders: JsonObject | readonly JsonObject[], formula: string, more: JsonObject = {}): JsonObject => ({
    type: 'multi',
    name: 'all',
    graders,
    calculate_output: formula,
    ...more,
  })
  it.each([
    ['0.25 * g0 + 0.75 * g1', 'yes!', 0.75],
    ['g0 * g1', 'yes', 1],
    ['max(g0, g1) - 2', 'no', -2],
    ['g0 ^ 0', 'no', 1],
  ])('%s of %s is %d', async (formula, answer, reward) => {
    const graded = await run(multi(parts('eq', 'like'), formula), answer)
    expect(graded.reward).toBe(reward)
    expect(graded.errors).toEqual([])
    expect(Object.keys(graded.parts)).toEqual(['g0', 'g1'])
  })

  it.each([
    ['g0 / 0', {}, 0],
    ['g0 / 0', { invalid_grade: -1 }, -1],
    ['g9', { invalid_grade: 0.5 }, 0.5],
    ['g0 +', {}, 0],
  ])('%s with %o is formula_parse_error and %d', async (formula, more, reward) => {
    const graded = await run(multi(parts('eq'), formula, more), 'yes')
    expect(graded).toMatchObject({ reward, errors: [{ flag: 'formula_parse_error', grader: 'all' }] })
  })

  it('a part in error is 0 and counted, the others count', async () => {
    const graded = await run(multi({ ...parts('eq'), bad: check('{{item.gone}}', '', 'eq') }, 'g0 + bad'), 'yes')
    expect(graded).toMatchObject({ reward: 1, parts: { g0: 1, bad: 0 } })
    expect(graded.errors.map(({ flag, grader }) => `${grader} ${flag}`)).toEqual(['check invalid_variable_error'])
  })

  it('takes a list by its names, and one grader alone', async () => {
    const one = { ...check('{{sample.output_text}}', 'yes', 'eq'), name: 'right' }
    for (const graders of [[one], one]) expect((await run(multi(graders as never, '2 * right'), 'yes')).reward).toBe(2)
  })

  it('a threshold says what passed and changes no reward', async () => {
    const graders = {
      near: {
        type: 'text_similarity',
        input: '{{sample.output_text}}',
        reference: 'abcd',
        evaluation_metric: 'fuzzy_match',
        pass_threshold: 0.9,
      },
    }
    const graded = await run(multi(graders, 'near', { pass_threshold: 0.5 }), 'abc')
    expect(graded.passes).toEqual({ near: false, all: true })
    expect(graded.reward).toBeCloseTo(6 / 7, 12)
  })
})

describe('what is refused', () => {
  const similar = { type: 'text_similarity', name: 's', input: 'a', reference: 'b' }
  it.each([
    [[], 'grader', /expected an object, got a list/],
    [{ type: 'regex' }, 'grader.type', /string_check, .* or multi, got "regex"/],
    [{ ...check('a', 'b', 'is') }, 'grader.operation', /eq, ne, like or ilike, got "is"/],
    [{ ...check('a', 'b', 'eq'), refrence: 'c' }, 'grader.refrence', /no field of a string_check grader/],
    [{ ...check('a', 'b', 'eq'), input: 4 }, 'grader.input', /expected a text, got a value of type number/],
    [{ ...similar, evaluation_metric: 'cosine' }, 'grader.evaluation_metric', /embeddings/],
    [{ type: 'multi', graders: {}, calculate_output: '1' }, 'grader.graders', /1 to 64/],
    [
      {
        type: 'multi',
        graders: { m: { type: 'multi', graders: { a: similar }, calculate_output: 'a' } },
        calculate_output: '1',
      },
      'grader.graders.m.graders.a.evaluation_metric',
      /expected/,
    ],
    [
      { type: 'multi', graders: [check('a', 'b', 'eq'), check('a', 'b', 'eq')], calculate_output: '1' },
      'grader.graders[1]',
      /two graders/,
    ],
  ])('%o at %s', (spec, param, words) => {
    const { message, param: at } = refusal(() => readGrader(spec))
    expect(at).toBe(param)
    expect(message).toMatch(words)
  })

  it('a formula that cannot be computed, before anything is graded', () => {
    const spec = (formula: string): JsonObject => ({
      type: 'multi',
      graders: { a: check('a', 'b', 'eq') },
      calculate_output: formula,
    })
    for (const formula of ['a +', 'b']) {
      expect(refusal(() => checkGrader(readGrader(spec(formula)))).param).toBe('grader.calculate_output')
    }
    expect(() => checkGrader(readGrader(spec('1 - a')))).not.toThrow()
  })

  it('texts that are too long to be compared are an error with its number', async () => {
    const spec = {
      type: 'text_similarity',
      name: 'long',
      input: '{{sample.output_text}}',
      reference: 'x',
      evaluation_metric: 'bleu',
    }
    const { reward, errors } = await run(spec, 'y'.repeat(8193))
    expect([reward, errors[0]?.flag]).toEqual([0, 'other_error'])
    expect(errors[0]?.message).toContain('8193')
  })
})

it('names paths that no row has', () => {
  const grader = readGrader(check('{{sample.output_text}} {{item.a}} {{item.b}}', '{{item.c.d}}', 'eq'))
  expect(pathsOfNoRow(grader, [{ a: 1 }, { c: { d: 1 } }])).toEqual(['item.b'])
})

it('all fourteen fields of errors are there', () => {
  expect(Object.keys(toErrorFields([]))).toHaveLength(14)
  for (const flag of ERROR_FLAGS) {
    const fields: Readonly<Record<string, unknown>> = toErrorFields([{ flag, grader: 'g', message: 'why' }])
    expect(Object.entries(fields).filter(([, value]) => value === true)).toEqual([[flag, true]])
  }
})

it('compares texts only when it is their turn', async () => {
  const near = { type: 'text_similarity', input: '{{sample.output_text}}', reference: 'a', evaluation_metric: 'bleu' }
  const graders = { a: { ...near, name: 'a' }, b: { ...near, name: 'b' } }
  const grader = readGrader({ type: 'multi', name: 'both', graders, calculate_output: 'a + b' })
  let turns = 0
  const inTurn = (): Promise<number> => {
    turns += 1
    return Promise.resolve(0.25)
  }
  const graded = await grade(grader, { item: {}, sample: { output_text: 'a' } }, { inTurn })
  expect([turns, graded.reward]).toEqual([2, 0.5])
})
