/**
 * Messages between the server's event loop and the threads that read large bodies. Types, and errors as plain data.
 */
import { RequestValidationError, type ValidationProblem } from '#api/wire/errors.js'
import { AppError, type ErrorCategory, type ErrorOptions } from '#base/errors.js'
import type { BatchCounts } from '#training/data/metrics.js'
import type { encodeTotals } from '#training/data/split-metrics.js'
import type { BodyName, GroupsBodyName } from './bodies.js'

/** Where the bytes are: handed over, or in a file that only the sender deletes. */
export type BodySource = { readonly bytes: Uint8Array } | { readonly path: string }

export interface ParseTask {
  readonly type: 'parse'
  readonly id: number
  readonly name: BodyName
  readonly source: BodySource
}

/** Checks every group and writes it as one JSON line to `targetPath`, which must not exist. */
export interface GroupsTask {
  readonly type: 'groups'
  readonly id: number
  readonly name: GroupsBodyName
  readonly source: BodySource
  readonly targetPath: string
  readonly maxGroupBytes: number
}

export type ThreadTask = ParseTask | GroupsTask

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
  readonly counts: BatchCounts
  /** Totals under the body's `split`, as they are stored; null for a body without one. */
  readonly totals: ReturnType<typeof encodeTotals> | null
}

export type ThreadReply =
  | { readonly type: 'done'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failed'; readonly id: number; readonly error: PlainError }

/** An error that survives the way between threads. */
export interface PlainError {
  readonly category: ErrorCategory | null
  /** Of a raw error: the system's code, for example `ENOSPC`. */
  readonly code: string | null
  readonly message: string
  readonly options: Pick<ErrorOptions, 'hint' | 'param' | 'details'>
  readonly problems: readonly ValidationProblem[] | null
  /** Of a body that does not fit. */
  readonly sentence?: string
}

export function toPlainError(error: unknown): PlainError {
  if (error instanceof AppError) {
    const { category, code, message, hint, param, details } = error
    const plain = { category, code, message, options: { hint, param, details }, problems: null }
    return error instanceof RequestValidationError
      ? { ...plain, problems: error.problems, sentence: error.sentence }
      : plain
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
  return { category: null, code, message, options: {}, problems: null }
}

export function fromPlainError(plain: PlainError): Error {
  if (plain.problems !== null) {
    const { message, sentence = message } = plain
    return new RequestValidationError(plain.problems, {
      message,
      sentence,
      ...(plain.code === null ? {} : { code: plain.code }),
    })
  }
  if (plain.category !== null) {
    return new AppError(plain.category, plain.code ?? 'internal_error', plain.message, plain.options)
  }
  return Object.assign(new Error(plain.message), plain.code === null ? {} : { code: plain.code })
}
