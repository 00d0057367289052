/**
 * What answers are measured by: graders, each with what passes. Checks by kind are those of graders; what an eval adds is
 * the threshold.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { checkGrader } from '#plugins/graders/grading/check.js'
import { readGrader } from '#plugins/graders/grading/spec.js'

export interface Criterion {
  /** Its own among the criteria. */
  readonly name: string
  readonly type: string
  /** As graders/run takes it. */
  readonly grader: JsonObject
  /** From which score on an answer passes. */
  readonly passesFrom: number
}

/** Kinds whose score is 0 or 1. */
const YES_OR_NO = ['string_check', 'label_model']

/** @throws {InvalidRequestError} `invalid_grader`, `missing_required_parameter` */
export function readCriteria(given: readonly JsonObject[]): readonly Criterion[] {
  const names = new Map<string, number>()
  return given.map((grader, i) => {
    const path = `testing_criteria[${i}]`
    const read = readGrader(grader, path)
    checkGrader(read, path)
    if (read.passThreshold === null && !YES_OR_NO.includes(read.type)) {
      throw new InvalidRequestError('missing_required_parameter', `${path}.pass_threshold is missing`, {
        param: `${path}.pass_threshold`,
        hint: `say from which score on an answer passes: a ${read.type} has no threshold of its own`,
      })
    }
    const before = names.get(read.name) ?? 0
    names.set(read.name, before + 1)
    const name = before === 0 ? read.name : `${read.name}-${before + 1}`
    return { name, type: read.type, grader, passesFrom: read.passThreshold ?? 1 }
  })
}
