/**
 * What one rendering may use: the length of a text, the items of a list, memory in all, time. Whatever a template can make large asks
 * here before it makes it, for a template is a stranger's.
 *
 * V8 ends the process when a heap is full, and with it everybody's answers; one step of a template may fill it (`[1] * 10**9`), and may
 * take minutes that no timer inside the thread can end. So sizes are bounded before they are made, and each step is short. A rendering
 * is one synchronous call, so the meter of the one that runs is known to all that it calls; without one nothing is bounded.
 */
import { getHeapStatistics } from 'node:v8'
import { InvalidRequestError } from '#base/errors/errors.js'
import { collectGarbageNow } from '#base/machine/collect-garbage.js'

export interface MeterLimits {
  /** Longest text, in UTF-16 units. */
  readonly maxTextLength: number
  /** Whether the time is over. */
  readonly isLate: () => boolean
}

interface Meter extends MeterLimits {
  readonly maxItems: number
  readonly maxBytes: number
  readonly heapBytes: number
  /** Units made since the heap was last looked at. */
  unseen: number
  /** Units of the value that is being printed. */
  printed: number
  steps: number
}

const MIB = 2 ** 20
/** What a rendering may hold beside what it is given, where the heap has four times as much left. */
const MAX_BYTES = 512 * MIB
const MAX_ITEMS = 1_000_000
/** Items of a list are values of their own: some 64 bytes each, and the places of what is made from them. */
const BYTES_PER_ITEM = 256
/** Looking costs microseconds. */
const UNITS_PER_LOOK = 4 * MIB
const STEPS_PER_LOOK = 256
/** Bits of an integer: Python prints no more than 4300 digits. */
const MAX_INTEGER_BITS = 16_384
/** Pairs of characters that a search may have to compare: some seconds. */
const MAX_SEARCH = 2 ** 34

let meter: Meter | null = null

/** Runs a rendering under its limits. */
export function metered<T>(limits: MeterLimits, render: () => T): T {
  const { heap_size_limit: most, used_heap_size: used } = getHeapStatistics()
  const maxBytes = Math.min(MAX_BYTES, Math.max(0, most - used) / 4)
  const outer = meter
  meter = {
    ...limits,
    maxTextLength: Math.min(limits.maxTextLength, Math.floor(maxBytes / 8)),
    maxItems: Math.min(MAX_ITEMS, Math.floor(maxBytes / BYTES_PER_ITEM)),
    maxBytes,
    heapBytes: used,
    ...{ unseen: 0, printed: 0, steps: 0 },
  }
  try {
    return render()
  } finally {
    meter = outer
  }
}

/** @throws {InvalidRequestError} `chat_template_budget` where a text of so many UTF-16 units is too long */
export function claimText(length: number): void {
  if (meter === null) return
  if (!(length <= meter.maxTextLength)) throw budgetError(`writes more than ${meter.maxTextLength} characters`)
  note(meter, length)
}

/** The same of a list, tuple or mapping. */
export function claimItems(count: number): void {
  if (meter === null) return
  if (!(count <= meter.maxItems)) throw budgetError(`makes a list of more than ${meter.maxItems} items`)
  note(meter, count * 8)
}

/** The same of a part of a value that is being printed; the parts of one value count together. */
export function claimPrinted(length: number): void {
  if (meter === null) return
  claimStep()
  meter.printed += length
  claimText(meter.printed)
}

/** Prints a value: what it claims counts from here. */
export function printing(print: () => string): string {
  if (meter === null) return print()
  const outer = meter.printed
  meter.printed = 0
  try {
    return print()
  } finally {
    meter.printed = outer
  }
}

/** Before an integer of so many bits is made. */
export function claimInteger(bits: number): void {
  if (meter === null || bits <= MAX_INTEGER_BITS) return
  throw budgetError(`makes an integer of more than ${MAX_INTEGER_BITS} bits`)
}

/** Before a text is searched for another: the worst case is their product, and nothing ends it. */
export function claimSearch(text: string, part: string): void {
  if (meter === null || text.length * part.length <= MAX_SEARCH) return
  throw budgetError(`searches ${text.length} characters for ${part.length}`)
}

/** One of many small steps that belong to one node. */
export function claimStep(): void {
  if (meter === null) return
  meter.steps += 1
  if (meter.steps % STEPS_PER_LOOK === 0 && meter.isLate()) throw budgetError('takes too long')
}

function note(current: Meter, units: number): void {
  current.unseen += units
  if (current.unseen < UNITS_PER_LOOK) return
  current.unseen = 0
  if (current.isLate()) throw budgetError('takes too long')
  const isFull = (): boolean => getHeapStatistics().used_heap_size - current.heapBytes > current.maxBytes
  if (!isFull()) return
  // what is used holds garbage, too
  collectGarbageNow()
  if (isFull()) throw budgetError(`needs more than ${Math.round(current.maxBytes / MIB)} MB`)
}

export function budgetError(what: string): InvalidRequestError {
  return new InvalidRequestError('chat_template_budget', `chat template ${what}`, {
    param: 'messages',
    hint: 'a template loops over messages and tools; repeat and nest less in it',
  })
}
