/**
 * Grades one answer: the reward, what each part of it was, and every error by its name. A grader that errs gives 0
 * and its flag; nothing an answer or a row holds makes this throw.
 */
import type { JsonObject } from '#base/util/json.js'
import type { EndpointAccess } from './endpoint.js'
import { FormulaError, readFormula } from './formula.js'
import { type GradeError, GradingError } from './grade-errors.js'
import type { AskModel, TokenUsage, UsageByModel } from './model-grader.js'
import { LONGEST_TEXT, similarity } from './similarity/similarity.js'
import type { Grader, MultiGrader, SingleGrader, StringCheck } from './spec.js'
import { type Namespaces, render, VariableError } from './template.js'

/** What a grader said of an answer. */
export interface Graded {
  readonly reward: number
  /** By the key of each grader of a `multi`; empty of others. */
  readonly parts: Readonly<Record<string, number>>
  /** Of graders with a `pass_threshold`, by name. */
  readonly passes: Readonly<Record<string, boolean>>
  readonly errors: readonly GradeError[]
  /** Tokens of models that graded, by model. */
  readonly usage: Readonly<Record<string, TokenUsage>>
}

/** What graders work with that are more than arithmetic. */
export interface GradeContext {
  /** Absent: graders by a model err. */
  readonly ask?: AskModel | undefined
  /** Runs a source of Python; absent: graders in Python err. */
  readonly python?: GradePython | undefined
  /** Absent: graders by an endpoint err. */
  readonly access?: EndpointAccess | undefined
  /** Runs a comparison of two texts, which may take a second of a core, when it is its turn; absent: at once. */
  readonly inTurn?: ((compare: () => Promise<number>) => Promise<number>) | undefined
  readonly signal?: AbortSignal | undefined
}

/** @throws {GradingError} the flags of Python graders */
export type GradePython = (
  source: string,
  namespaces: Namespaces,
  options: { readonly signal?: AbortSignal | undefined },
) => Promise<number>

interface GradeInput {
  /** The row. */
  readonly item: JsonObject
  /** The answer, of `toSample`. */
  readonly sample: JsonObject
}

export async function grade(grader: Grader, input: GradeInput, context: GradeContext = {}): Promise<Graded> {
  const usage: UsageByModel = new Map()
  const errors: GradeError[] = []
  const passes: Record<string, boolean> = {}
  const namespaces: Namespaces = { item: input.item, sample: input.sample }
  async function scoreOf(single: SingleGrader): Promise<number> {
    let score = 0
    try {
      score = await scoreBy(single, namespaces, { ...context, usage })
      if (!Number.isFinite(score)) throw new GradingError('other_error', `the score is ${score}`)
    } catch (error) {
      context.signal?.throwIfAborted()
      score = 0
      errors.push(toGradeError(single.name, error))
    }
    pass(single, score)
    return score
  }
  function pass({ name, passThreshold }: Grader, score: number): void {
    if (passThreshold !== null) passes[name] = score >= passThreshold
  }
  const rest = () => ({ passes, errors, usage: Object.fromEntries(usage) })
  if (grader.type !== 'multi') return { reward: await scoreOf(grader), parts: {}, ...rest() }
  const keys = [...grader.graders.keys()]
  const scores = await Promise.all([...grader.graders.values()].map(scoreOf))
  const parts = new Map(keys.map((key, i) => [key, scores[i] ?? 0]))
  const reward = combine(grader, parts, errors)
  pass(grader, reward)
  return { reward, parts: Object.fromEntries(parts), ...rest() }
}

async function scoreBy(
  grader: SingleGrader,
  namespaces: Namespaces,
  context: GradeContext & { readonly usage: UsageByModel },
): Promise<number> {
  if ('messages' in grader) {
    const { ask, usage, signal } = context
    if (ask === undefined) throw new GradingError('model_grader_server_error', `nobody is here to ask ${grader.model}`)
    const { gradeByModel } = await import('./model-grader.js')
    return await gradeByModel(grader, namespaces, { ask, usage, signal })
  }
  if (grader.type === 'endpoint') {
    const { access, signal } = context
    if (access === undefined) throw new GradingError('other_error', `nothing here may connect to ${grader.url}`)
    const { gradeByEndpoint } = await import('./endpoint.js')
    return await gradeByEndpoint(grader, namespaces, { access, signal })
  }
  if (grader.type === 'python') {
    const { python, signal } = context
    if (python === undefined) throw new GradingError('python_grader_server_error', 'no Python is run here')
    return await python(grader.source, namespaces, { signal })
  }
  const input = render(grader.input, namespaces)
  const reference = render(grader.reference, namespaces)
  if (grader.type === 'string_check') return isMatch(grader, input, reference) ? 1 : 0
  for (const [name, text] of Object.entries({ input, reference })) {
    if (text.length > LONGEST_TEXT) {
      throw new GradingError(
        'other_error',
        `its ${name} has ${text.length} characters, and at most ${LONGEST_TEXT} are compared`,
      )
    }
  }
  const compare = async () => await similarity(grader.metric, input, reference)
  return await (context.inTurn === undefined ? compare() : context.inTurn(compare))
}

function isMatch({ operation }: StringCheck, input: string, reference: string): boolean {
  if (operation === 'eq') return input === reference
  if (operation === 'ne') return input !== reference
  if (operation === 'like') return input.includes(reference)
  return input.toLowerCase().includes(reference.toLowerCase())
}

function combine(grader: MultiGrader, parts: ReadonlyMap<string, number>, errors: GradeError[]): number {
  const fail = (message: string): number => {
    errors.push({ flag: 'formula_parse_error', grader: grader.name, message })
    return grader.invalidGrade
  }
  try {
    const { names, compute } = readFormula(grader.formula)
    const unknown = names.find((name) => !parts.has(name))
    if (unknown !== undefined) return fail(`calculate_output names ${unknown}, and no grader is called that`)
    const reward = compute(parts)
    return Number.isFinite(reward) ? reward : fail(`calculate_output is ${reward}`)
  } catch (error) {
    if (!(error instanceof FormulaError)) throw error
    return fail(error.message)
  }
}

function toGradeError(grader: string, error: unknown): GradeError {
  if (error instanceof GradingError) return { flag: error.flag, grader, message: error.message }
  if (!(error instanceof VariableError))
    return { flag: 'other_error', grader, message: error instanceof Error ? error.message : String(error) }
  const isJson = error.path?.steps[0] === 'sample' && error.path.steps[1] === 'output_json'
  return { flag: isJson ? 'sample_parse_error' : 'invalid_variable_error', grader, message: error.message }
}
