/**
 * The form of a row of the table of findings: `findings.ts` has them all.
 */
import type { Course } from './course.js'

/** Said of a job or of several. */
export interface Finding {
  readonly name: string
  readonly says: string
  /** What to do about it. */
  readonly next: string
}

export interface Row {
  readonly name: string
  /** `job`: by the numbers of one job, as soon as it has them; `course`: by those of the jobs before it as well. */
  readonly about: 'job' | 'course'
  /** What it says, or null where it is not so. */
  readonly when: (course: Course) => Omit<Finding, 'name'> | null
}
