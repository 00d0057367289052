/**
 * What was graded, in the form that OpenAI's graders/run answers with: the server and the command line say the same.
 */
import type { Graded } from './grade.js'
import { toErrorFields } from './grade-errors.js'
import type { Grader } from './spec.js'

/** @param seconds how long it took */
export function toRunResult(grader: Grader, graded: Graded, seconds: number) {
  const { reward, parts, passes, errors } = graded
  return {
    reward,
    metadata: {
      name: grader.name,
      type: grader.type,
      errors: toErrorFields(errors),
      error_details: errors.map((error) => ({ ...error })),
      execution_time: seconds,
      scores: { ...parts, [grader.name]: reward },
      passed: { ...passes },
      token_usage: null,
      sampled_model_name: null,
    },
    sub_rewards: { ...parts },
    model_grader_token_usage_per_model: {},
  }
}
