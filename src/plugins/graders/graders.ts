/**
 * Grades one answer, or checks a grader without one.
 */
import type { JsonObject } from '#base/util/json.js'
import { checkGrader } from '#sdk/graders/check.js'
import { grade } from '#sdk/graders/grade.js'
import { toRunResult } from '#sdk/graders/run-result.js'
import { toSample } from '#sdk/graders/sample.js'
import { readGrader } from '#sdk/graders/spec.js'
import type { ServiceContext } from '#service/operations/context.js'
import type { RunGraderRequest, RunGraderResponse } from './wire.js'

export function createGraderService({ clock }: Pick<ServiceContext, 'clock'>) {
  return {
    async run({ grader: spec, item, model_sample: given }: RunGraderRequest): Promise<RunGraderResponse> {
      const grader = readGrader(spec)
      const begunMs = clock.nowMs()
      const sample = toSample(typeof given === 'string' ? given : (given as JsonObject))
      const graded = await grade(grader, { item: item ?? {}, sample })
      return toRunResult(grader, graded, (clock.nowMs() - begunMs) / 1000)
    },
    validate<T extends { readonly grader: unknown }>(request: T): T {
      checkGrader(readGrader(request.grader))
      return request
    },
  }
}
