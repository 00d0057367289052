/**
 * Messages between the server's event loop and the threads that read large bodies. Types, and errors with what is wrong with a body.
 */

import { type ErrorMessage, fromErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import type { AppError } from '#base/errors/errors.js'
import { RequestValidationError, type ValidationProblem } from '#contract/wire/errors.js'
import type { BatchCounts } from '#formats/rows/metrics.js'
import type { encodeTotals } from '#formats/rows/split-metrics.js'
import type { GroupsBodyName } from './bodies.js'

/** Bodies of groups that a thread has open at once. */
export const MAX_OPEN_GROUPS = 4

/** Where the bytes are: handed over, or in a file that only the sender deletes. */
export type BodySource = { readonly bytes: Uint8Array } | { readonly path: string }

export interface ParseTask {
  readonly type: 'parse'
  /** As the thread's own list has it. */
  readonly name: string
  readonly source: BodySource
}

/** Checks every group and writes it as one JSON line to `targetPath`, which must not exist. */
export interface GroupsTask {
  readonly type: 'groups'
  readonly name: GroupsBodyName
  readonly source: BodySource
  readonly targetPath: string
  readonly maxGroupBytes: number
}

/** Reads what is looked at of a body that is no JSON. */
export interface BinaryTask {
  readonly type: 'binary'
  /** As the thread's own list has it. */
  readonly name: string
  readonly source: BodySource
}

export type ThreadTask = ParseTask | GroupsTask | BinaryTask

/** What is left of the groups once they are on disk. */
export interface GroupsRead {
  /** The body without its groups, checked against its schema. */
  readonly request: unknown
  /** As of `ParsedBody`. */
  readonly ignoredFields: readonly string[]
  readonly sha256: string
  readonly sizeBytes: number
  /** The largest policy version any trajectory names, and where. */
  readonly newest: { readonly version: number; readonly path: string } | null
  /** The largest token id any trajectory holds, and where. */
  readonly largestTokenId: { readonly id: number; readonly path: string } | null
  /** Where metrics have more names, or longer ones, than a job's checkpoint takes, and a sentence on it. */
  readonly unfitMetrics: { readonly path: string; readonly problem: string } | null
  readonly counts: BatchCounts
  /** Sentences: what is worth saying of the groups. */
  readonly notes: readonly string[]
  /** Totals under the body's `split`, as they are stored; null for a body without one. */
  readonly totals: ReturnType<typeof encodeTotals> | null
}

/** An error on its way between threads, with the problems of a body that does not fit. */
export interface PlainError extends ErrorMessage {
  readonly problems: readonly ValidationProblem[] | null
  /** Of a body that does not fit. */
  readonly sentence?: string
  readonly told?: Readonly<Record<string, unknown>>
}

export function toPlainError(error: unknown): PlainError {
  const plain = { ...toErrorMessage(error), problems: null }
  return error instanceof RequestValidationError
    ? { ...plain, problems: error.problems, sentence: error.sentence, told: error.told }
    : plain
}

export function fromPlainError({ problems, sentence, told, ...plain }: PlainError): AppError {
  if (problems === null) return fromErrorMessage(plain)
  const { code, message } = plain
  return new RequestValidationError(problems, { code, message, sentence: sentence ?? message, told })
}
