/**
 * What programs use of it, as `trainyard/rl`.
 */
export { gradeWith } from './grading/grade-with.js'
