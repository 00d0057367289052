/**
 * Reading the table of findings: what is said of a job, of groups before there is a job, and of the last jobs of a model.
 */
import type { AdvantageEstimator } from '#formats/rows/which-train.js'
import { type AnsweredGroup, answerFacts, quoteEqual } from './answers.js'
import type { Course, JobNumbers } from './course.js'
import type { Finding } from './finding.js'
import { FINDINGS } from './findings.js'
import { type DrawnAnswer, samplingFacts } from './sampling-facts.js'

/** Nothing known. */
export const NO_NUMBERS: JobNumbers = {
  step: null,
  gradientSteps: 0,
  facts: {},
  metrics: {},
  validation: [],
  quoted: '',
  learningRate: null,
  advantageBalance: null,
}

/** What is said of one job by its own numbers. */
export function diagnoseJob(job: JobNumbers): Finding[] {
  return find('job', { job, earlier: [] })
}

/** What is said of a job by those before it. */
export function diagnoseCourse(course: Course): Finding[] {
  return find('course', course)
}

/**
 * What is said of groups that nothing was trained on yet.
 *
 * @param drawn how their answers were sampled; default nobody knows
 * @param options.estimator `advantage_estimator` of the job that would train on them; default `group`
 * @param options.shown jobs on examples that the model has had; default none
 */
export function diagnoseGroups(
  groups: readonly AnsweredGroup[],
  drawn: readonly DrawnAnswer[] = [],
  { estimator, shown = 0 }: { readonly estimator?: AdvantageEstimator; readonly shown?: number } = {},
): Finding[] {
  const before = shown > 0 ? { before: { examples: shown } } : {}
  const facts = { ...answerFacts(groups, estimator), ...samplingFacts(drawn), ...before }
  return diagnoseJob({ ...NO_NUMBERS, facts, quoted: quoteEqual(groups) })
}

/** One sentence. */
export function sayFinding({ says, next }: Finding): string {
  return `${says}; ${next}`
}

function find(about: 'job' | 'course', course: Course): Finding[] {
  return FINDINGS.flatMap((row) => {
    const found = row.about === about ? row.when(course) : null
    return found === null ? [] : [{ name: row.name, ...found }]
  })
}
