/**
 * What was graded, in the form that OpenAI answers with: the server and the command line say the same.
 */
import type { Graded } from './grading/grade.js'
import { toErrorFields } from './grading/grade-errors.js'
import type { TokenUsage } from './grading/model-grader.js'
import type { Grader } from './grading/spec.js'

/** @param seconds how long it took */
export function toRunResult(grader: Grader, graded: Graded, seconds: number) {
  const { reward, parts, passes, errors, usage } = graded
  const [model = null, ...others] = Object.keys(usage)
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
      token_usage: model === null ? null : sumOf(Object.values(usage)),
      sampled_model_name: others.length === 0 ? model : null,
    },
    sub_rewards: { ...parts },
    model_grader_token_usage_per_model: { ...usage },
  }
}

function sumOf(usages: readonly TokenUsage[]) {
  const sum = (name: keyof TokenUsage): number => usages.reduce((total, usage) => total + usage[name], 0)
  return {
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
    cached_tokens: sum('cached_tokens'),
    total_tokens: sum('prompt_tokens') + sum('completion_tokens'),
  }
}
