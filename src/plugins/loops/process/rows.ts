/**
 * Rows of a loop, and which of them a step asks: by the loop's seed alone, so that a process that goes on asks the same.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import type { Message, Tool } from '#sdk/rl/trajectory.js'
import type { LoopSpec } from '../loop-service.js'

export interface LoopRow {
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[] | null
  /** Of this row; null: the loop's. */
  readonly responseFormat: JsonObject | null
  /** What graders call `item`: every number as it was written. */
  readonly item: JsonObject
}

/** @throws {InvalidRequestError} `invalid_prompts` with the line */
export function readRows(text: string): readonly LoopRow[] {
  const lines = text.split('\n')
  const rows = lines.flatMap((line, i) => (line.trim() === '' ? [] : [readRow(line, i + 1)]))
  if (rows.length === 0) throw wrong('the file holds no row')
  return rows
}

function readRow(line: string, number: number): LoopRow {
  let plain: unknown
  try {
    plain = JSON.parse(line)
  } catch {
    throw wrong(`line ${number} is not JSON`)
  }
  const item = parseExact(line)
  if (!isJsonObject(plain) || !isJsonObject(item)) throw wrong(`line ${number} is no object`)
  const { messages, prompt, tools, response_format: format } = plain as Record<string, unknown>
  const asked = typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : messages
  if (!Array.isArray(asked) || asked.length === 0) throw wrong(`line ${number} has no "messages"`)
  return {
    messages: asked as Message[],
    tools: Array.isArray(tools) ? (tools as Tool[]) : null,
    responseFormat: isJsonObject(format) ? format : null,
    item,
  }
}

const wrong = (message: string): InvalidRequestError =>
  new InvalidRequestError('invalid_prompts', message, { hint: 'each line is {"messages": […], …}' })

/** Rows that train, and rows that measure. */
export function splitRows<Row>(
  rows: readonly Row[],
  given: readonly Row[] | null,
  { seed, heldOutRows }: Pick<LoopSpec, 'seed' | 'heldOutRows'>,
): { readonly train: readonly Row[]; readonly heldOut: readonly Row[] } {
  if (given !== null) return { train: rows, heldOut: given }
  const order = shuffled(rows.length, `${seed} held out`)
  // something is left to train on
  const count = Math.min(heldOutRows, rows.length - 1)
  const out = new Set(order.slice(0, count))
  return { train: rows.filter((_, i) => !out.has(i)), heldOut: rows.filter((_, i) => out.has(i)) }
}

/** Places of the rows that a step asks: every row once an epoch, each epoch in an order of its own. */
export function rowsOfStep(count: number, step: number, { seed, promptsPerStep }: LoopSpec): readonly number[] {
  const orders = new Map<number, readonly number[]>()
  return Array.from({ length: promptsPerStep }, (_, i) => {
    const at = step * promptsPerStep + i
    const epoch = Math.floor(at / count)
    const order = orders.get(epoch) ?? shuffled(count, `${seed} epoch ${epoch}`)
    orders.set(epoch, order)
    return order[at % count] ?? 0
  })
}

/** A seed of answers, below 2³¹. */
export const seedOf = (...of: readonly (string | number)[]): number => createRng(of.join(' ')).integer(2 ** 31)

/** Fisher and Yates. */
function shuffled(count: number, seed: string): readonly number[] {
  const rng = createRng(seed)
  const order = Array.from({ length: count }, (_, i) => i)
  for (let i = count - 1; i > 0; i -= 1) {
    const j = rng.integer(i + 1)
    const [a, b] = [order[i] ?? 0, order[j] ?? 0]
    order[i] = b
    order[j] = a
  }
  return order
}
