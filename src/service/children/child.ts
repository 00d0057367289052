/**
 * What all child processes have in common: how much of the machine they get, and their errors as this process's.
 */
import type { ChildProcess } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import { AppError, type ErrorMessage } from '#base/errors.js'

/** An error of a child as this process's own. */
export function toAppError({ category, code, message, param, hint, details }: ErrorMessage): AppError {
  return new AppError(category, code, message, {
    param: param ?? undefined,
    hint: hint ?? undefined,
    details: details ?? undefined,
  })
}

/** Who chats waits for an answer: the child gets what serving leaves, and all of it when nobody chats. */
export function stepBack(child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has ended already, or the system has no priorities.
  }
}
