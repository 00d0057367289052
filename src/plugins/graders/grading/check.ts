/**
 * What can be told of a grader without an answer: its templates name what can be there, its formula can be read and
 * names its graders.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { FormulaError, readFormula } from './formula.js'
import type { Grader, MultiGrader, SingleGrader } from './spec.js'
import { type Path, pathsOf, VariableError, valueAt } from './template.js'

/** @throws {InvalidRequestError} `invalid_grader` with the path of what is wrong */
export function checkGrader(grader: Grader, path = 'grader'): void {
  for (const { at, template } of templatesOf(grader, path)) pathsAt(at, template)
  if (grader.type === 'multi') checkFormula(grader, `${path}.calculate_output`)
}

/**
 * Paths of rows that none of these has: whoever grades with them learns it before answers are asked for.
 *
 * @param rows the rows that will be graded
 */
export function pathsOfNoRow(grader: Grader, rows: readonly JsonObject[]): readonly string[] {
  return rowPathsOf(grader)
    .filter((path) => !rows.some((item) => valueAt(path, { item, sample: {} }) !== undefined))
    .map(({ text }) => text)
}

/** Paths of rows that templates name, each once. */
export function rowPathsOf(grader: Grader): readonly Path[] {
  const paths = templatesOf(grader, 'grader').flatMap(({ at, template }) => pathsAt(at, template))
  const ofRows = paths.filter(({ steps: [namespace] }) => namespace === 'item')
  return [...new Map(ofRows.map((path) => [path.text, path])).values()]
}

interface Template {
  /** Where it stands. */
  readonly at: string
  readonly template: string
}

function templatesOf(grader: Grader, path: string): readonly Template[] {
  return singlesOf(grader, path).flatMap(({ at, each }) => templatesOfOne(each, at))
}

/** The graders that are no `multi`, each with its place. */
export function singlesOf(
  grader: Grader,
  path = 'grader',
): readonly { readonly at: string; readonly each: SingleGrader }[] {
  if (grader.type !== 'multi') return [{ at: path, each: grader }]
  return [...grader.graders].map(([key, each]) => ({ at: `${path}.graders.${key}`, each }))
}

/** Models that grade. */
export function modelsOf(grader: Grader): readonly string[] {
  return [...new Set(singlesOf(grader).flatMap(({ each }) => ('model' in each ? [each.model] : [])))]
}

/** Endpoints that grade. */
export function urlsOf(grader: Grader): readonly string[] {
  return [...new Set(singlesOf(grader).flatMap(({ each }) => (each.type === 'endpoint' ? [each.url] : [])))]
}

/** Sources of Python that grade, each with its place. */
export function sourcesOf(grader: Grader): readonly { readonly source: string; readonly param: string }[] {
  return singlesOf(grader).flatMap(({ at, each }) =>
    each.type === 'python' ? [{ source: each.source, param: `${at}.source` }] : [],
  )
}

function templatesOfOne(grader: SingleGrader, path: string): readonly Template[] {
  if (grader.type === 'endpoint' || grader.type === 'python') return []
  if ('messages' in grader) {
    return grader.messages.flatMap(({ parts }, i) =>
      parts.map((template) => ({ at: `${path}.input[${i}].content`, template })),
    )
  }
  const { input, reference } = grader
  return [
    { at: `${path}.input`, template: input },
    { at: `${path}.reference`, template: reference },
  ]
}

function pathsAt(at: string, template: string): readonly Path[] {
  try {
    return pathsOf(template)
  } catch (error) {
    if (!(error instanceof VariableError)) throw error
    throw new InvalidRequestError('invalid_grader', `${at}: ${error.message}`, { param: at })
  }
}

function checkFormula({ formula, graders }: MultiGrader, param: string): void {
  try {
    const { names } = readFormula(formula)
    const unknown = names.find((name) => !graders.has(name))
    if (unknown === undefined) return
    throw new FormulaError(`no grader is called ${unknown}; there are ${[...graders.keys()].join(', ')}`)
  } catch (error) {
    if (!(error instanceof FormulaError)) throw error
    throw new InvalidRequestError('invalid_grader', `${param}: ${error.message}`, { param })
  }
}
