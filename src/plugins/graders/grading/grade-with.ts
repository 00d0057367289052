/**
 * A grader as a reward: the number trains, and its parts, what passed and errors become metrics and logs of the
 * trajectory.
 */
import { readEnvironment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Reward } from '#plugins/rl-library/rewards.js'
import type { Choice, Trajectory } from '#sdk/rl/trajectory.js'
import { checkGrader, modelsOf } from './check.js'
import { createPacer, type EndpointAccess } from './endpoint.js'
import { type GradeContext, type Graded, grade } from './grade.js'
import { ERRORS_METRIC } from './grade-errors.js'
import type { AskModel } from './model-grader.js'
import { createLocalPython } from './python/local-python.js'
import { toSample } from './sample.js'
import { type Grader, readGrader } from './spec.js'

/** What a reward is given of an answer. */
type Gradable = Pick<Trajectory, 'answer' | 'metrics'> & Partial<Pick<Trajectory, 'choices' | 'logs'>>

/**
 * A reward by a grader, in the form of OpenAI's graders. The task is the row.
 *
 * Parts of a `multi` become the metrics `reward/<key>`, thresholds `pass/<name>`, and the number of errors
 * `grader_errors`; what they were stands in the trajectory's logs.
 *
 * @example
 * const right = { type: 'string_check', operation: 'eq', input: '{{sample.output_text}}', reference: '{{item.answer}}' }
 * const reward = gradeWith(right)
 * @param options.models answers requests of graders that ask a model: `(request, call) => client.chat.create(request,
 *   call)`
 * @param options.variables what headers of endpoints may name, as `${NAME}`
 * @param options.python interpreter of graders in Python; default `python3`. They run with limits, and behind walls where
 *   the system gives some
 * @throws {AppError} `invalid_grader` with the path of what is wrong; `grader_model_not_found` for one that asks a
 *   model, without `models`
 */
export function gradeWith(
  spec: Grader | JsonObject,
  options: {
    readonly models?: AskModel
    readonly variables?: Readonly<Record<string, string | undefined>>
    readonly python?: string
  } = {},
): Reward<JsonObject> {
  const grader = 'passThreshold' in spec ? (spec as Grader) : readGrader(spec)
  checkGrader(grader)
  const [model] = modelsOf(grader)
  if (model !== undefined && options.models === undefined) {
    throw new InvalidRequestError(
      'grader_model_not_found',
      `the grader asks ${model}, and gradeWith was given no models`,
      {
        hint: 'gradeWith(spec, { models: (request, call) => client.chat.create(request, call) })',
      },
    )
  }
  const access: EndpointAccess = {
    address: () => Promise.resolve(null),
    variable: (name) => options.variables?.[name],
    pacer: createPacer(),
  }
  const python = createLocalPython({ python: options.python, environment: readEnvironment() }).grade
  return async (trajectory, item) =>
    (await gradeTrajectory(grader, trajectory, { item, ask: options.models, access, python })).reward
}

function toAnswer({ finish_reason: finishReason, message }: Choice): JsonObject {
  return { choices: [{ index: 0, finish_reason: finishReason ?? null, message: { ...message } as JsonObject }] }
}

/** What of an episode is graded: its last answer, as a choice of its own. */
export function answerOf({ choices = [], answer }: Pick<Gradable, 'answer' | 'choices'>): string | JsonObject {
  const last = choices.at(-1)
  return last === undefined ? answer : toAnswer(last)
}

/** Notes on an answer what was found beside the reward. @throws {Error} where a grader gave no score */
export function noteGraded({ metrics, logs }: Pick<Gradable, 'metrics' | 'logs'>, graded: Graded): void {
  // who gave no score said nothing of the answer: it is no answer that earned 0
  const unresponsive = graded.errors.find(({ flag }) => flag === 'unresponsive_reward_error')
  if (unresponsive !== undefined) throw new Error(`grader ${unresponsive.grader}: ${unresponsive.message}`)
  for (const [key, part] of Object.entries(graded.parts)) metrics[`reward/${key}`] = part
  for (const [name, isPassed] of Object.entries(graded.passes)) metrics[`pass/${name}`] = isPassed
  metrics[ERRORS_METRIC] = graded.errors.length
  for (const { flag, grader: name, message } of graded.errors) logs?.push(`grader ${name}: ${flag}: ${message}`)
}

/** Grades an answer and notes on it what was found beside the reward. */
export async function gradeTrajectory(
  grader: Grader,
  scored: Gradable,
  { item, ...context }: GradeContext & { readonly item: JsonObject },
): Promise<Graded> {
  const graded = await grade(grader, { item, sample: toSample(answerOf(scored)) }, context)
  noteGraded(scored, graded)
  return graded
}
