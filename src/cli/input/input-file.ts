/**
 * Reading what a person hands in: `-` is standard input, everything else a file; errors name the file and the line.
 */
import { openAsBlob } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { type ForeignFile, findForeignBytes, SNIFFED_BYTES } from '#base/foreign-file.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { UsageError } from '../terminal/errors.js'

import type { Io } from '../terminal/io.js'

/** Most kinds of problems printed of one file. */
const MAX_PROBLEMS = 10

/** What a file is called in messages: `-` reads as `standard input`. */
export function displayPath(path: string): string {
  return path === '-' ? 'standard input' : path
}

/**
 * The whole text, a byte order mark removed.
 *
 * @throws {UsageError} `input_unreadable` when the file is missing, a folder, or not UTF-8; `input_invalid` when it is of another kind
 */
export async function readInput(path: string, io: Io): Promise<string> {
  const text = path === '-' ? await io.stdin.readAll() : await readUtf8(path)
  if (path === '-') assertOwnKind(Buffer.from(text.slice(0, SNIFFED_BYTES)), path)
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

/** The input as a blob for an upload, byte by byte as it came: it may be compressed. A file is not read into memory. */
export async function openInput(path: string, io: Io): Promise<Blob> {
  if (path === '-') {
    const parts: Uint8Array<ArrayBuffer>[] = []
    for await (const part of io.stdin.stream) parts.push(part as Uint8Array<ArrayBuffer>)
    return new Blob(parts)
  }
  await requireFile(path)
  return await openAsBlob(path)
}

/**
 * A file holding one JSON object.
 *
 * @throws {UsageError} `input_unreadable` or `input_invalid`
 */
export async function readJsonObject(path: string, io: Io): Promise<JsonObject> {
  const text = await readInput(path, io)
  try {
    const value: unknown = JSON.parse(text)
    if (isJsonObject(value)) return value
  } catch (cause) {
    throw new UsageError('input_invalid', `${displayPath(path)} is not valid JSON: ${messageOf(cause)}`, { cause })
  }
  throw new UsageError('input_invalid', `${displayPath(path)} must hold one JSON object`)
}

export interface Problems {
  /** @param where `file:line` @param problem `path: what was expected` */
  add(where: string, problem: string): void
  /** @throws {UsageError} `input_invalid` where there are any: each kind once, with how often it is there and where first */
  throwIfAny(hint: string): void
}

/** Collects what is wrong with a file: the same in a thousand rows is one sentence. */
export function createProblems(): Problems {
  const kinds = new Map<string, { readonly first: string; count: number }>()
  return {
    add(where, problem) {
      // places in a row and what stood there differ where the mistake is the same
      const kind = problem.replaceAll(/\d+/g, '#').replace(/, got .*$/s, '')
      const known = kinds.get(kind)
      if (known === undefined) kinds.set(kind, { first: `${where}: ${problem}`, count: 1 })
      else known.count += 1
    },
    throwIfAny(hint) {
      if (kinds.size === 0) return
      const said = [...kinds.values()].map(({ first, count }) =>
        count === 1 ? first : `${first} (${count.toLocaleString('en-US')} rows, this is the first)`,
      )
      const rest = said.length - MAX_PROBLEMS
      const shown = [...said.slice(0, MAX_PROBLEMS), ...(rest > 0 ? [`and ${rest} other kinds of problems`] : [])]
      throw new UsageError('input_invalid', shown.join('\n  '), { hint })
    },
  }
}

/** Message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** @throws {UsageError} `input_invalid` */
export function refuseForeign(name: string, { problem, hint }: ForeignFile): never {
  throw new UsageError('input_invalid', `${name} ${problem}`, { hint })
}

function assertOwnKind(head: Uint8Array, path: string): void {
  const foreign = findForeignBytes(head)
  if (foreign !== null) refuseForeign(displayPath(path), foreign)
}

async function readUtf8(path: string): Promise<string> {
  await requireFile(path)
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new UsageError('input_unreadable', `${path} cannot be read: ${messageOf(cause)}`, { cause })
  })
  assertOwnKind(bytes, path)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new UsageError('input_unreadable', `${path} is not UTF-8 text`, { cause })
  }
}

async function requireFile(path: string): Promise<void> {
  const facts = await stat(path).catch((cause: unknown) => {
    throw new UsageError('input_unreadable', `${path} does not exist or cannot be read`, { cause })
  })
  if (facts.isDirectory()) throw new UsageError('input_unreadable', `${path} is a folder, expected a file`)
}
