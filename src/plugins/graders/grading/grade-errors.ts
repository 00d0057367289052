/**
 * What can go wrong while an answer is graded, by the names that OpenAI's API has for it. A grader that errs gives 0
 * and its flag.
 *
 * `truncated_observation_error` never comes: nothing is cut before it is graded.
 */

export const ERROR_FLAGS = [
  'formula_parse_error',
  'sample_parse_error',
  'truncated_observation_error',
  'unresponsive_reward_error',
  'invalid_variable_error',
  'other_error',
  'python_grader_server_error',
  'python_grader_runtime_error',
  'model_grader_server_error',
  'model_grader_refusal_error',
  'model_grader_parse_error',
] as const
type ErrorFlag = (typeof ERROR_FLAGS)[number]

/** The metric of a trajectory that counts errors of its grader. */
export const ERRORS_METRIC = 'grader_errors'

/** One error of one grader. */
export interface GradeError {
  readonly flag: ErrorFlag
  /** Name of the grader. */
  readonly grader: string
  readonly message: string
}

/** Thrown by what grades; becomes a `GradeError` and 0. */
export class GradingError extends Error {
  readonly flag: ErrorFlag

  constructor(flag: ErrorFlag, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.flag = flag
  }
}

/** All fourteen fields, as an answer has them. */
export function toErrorFields(errors: readonly GradeError[]) {
  const has = (flag: ErrorFlag): boolean => errors.some((error) => error.flag === flag)
  const says = (flag: ErrorFlag): string | null => errors.find((error) => error.flag === flag)?.message ?? null
  return {
    formula_parse_error: has('formula_parse_error'),
    sample_parse_error: has('sample_parse_error'),
    truncated_observation_error: has('truncated_observation_error'),
    unresponsive_reward_error: has('unresponsive_reward_error'),
    invalid_variable_error: has('invalid_variable_error'),
    other_error: has('other_error'),
    python_grader_server_error: has('python_grader_server_error'),
    python_grader_server_error_type: says('python_grader_server_error'),
    python_grader_runtime_error: has('python_grader_runtime_error'),
    python_grader_runtime_error_details: says('python_grader_runtime_error'),
    model_grader_server_error: has('model_grader_server_error'),
    model_grader_refusal_error: has('model_grader_refusal_error'),
    model_grader_parse_error: has('model_grader_parse_error'),
    model_grader_server_error_details: says('model_grader_server_error'),
  }
}
