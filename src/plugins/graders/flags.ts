/**
 * The flag of every command that grades. Loads nothing that grades.
 */
import { flag } from '#cli/command/flags.js'

export const teacherFlag = flag.repeated(
  (text: string) => text,
  '--teacher <name=url,variable>',
  'model at another server that the grader may ask, and the variable that holds its key; repeatable',
)
