/**
 * Memory for keys and values that come and go: what was freed is used again, instead of being left to the garbage collector.
 *
 * Fresh memory is slow at its first use, because the system has yet to map its pages, and a cache that grows row by row needs twice to
 * three times its final size. So arrays are parts of large slabs; a part that is freed can be taken at once, joined with free
 * neighbours. Only for memory with one owner, who says when it ends. A slab of which no part is in use is released when there is more
 * than the bound, or on request (`trim`). Knows nothing of what the numbers mean.
 */

/** From this size on glibc maps memory from the system whatever it has seen before, and gives it back when it is freed. */
const SLAB_BYTES = 32 * 2 ** 20
/** Parts begin at multiples of so many numbers: a line of the processor's cache. */
const UNIT = 16
const NUMBER_BYTES = Float32Array.BYTES_PER_ELEMENT

/** Numbers [start, end) of a slab. */
interface Span {
  readonly start: number
  readonly end: number
}

interface Slab {
  readonly numbers: Float32Array
  /** What nobody has, in order; neighbours are joined. */
  readonly free: Span[]
  /** Numbers from here on were never handed out, and are zero. */
  touched: number
}

export class KvMemory {
  /** Oldest first: parts are looked for there first, so that younger ones become free. */
  #slabs: Slab[] = []
  readonly #maxBytes: number

  /** @param maxBytes slabs that are free are kept as long as all together are not larger */
  constructor(maxBytes = Number.POSITIVE_INFINITY) {
    this.#maxBytes = maxBytes
  }

  /** Memory of all slabs, but for what was never handed out: the system gives that when it is used first. */
  get sizeBytes(): number {
    return this.#slabs.reduce((sum, { touched }) => sum + touched * NUMBER_BYTES, 0)
  }

  /** Memory that somebody has. */
  get usedBytes(): number {
    const freeBytes = (slab: Slab): number =>
      NUMBER_BYTES * slab.free.reduce((sum, { start, end }) => sum + end - start, 0)
    return this.#slabs.reduce((sum, slab) => sum + slab.numbers.byteLength - freeBytes(slab), 0)
  }

  /** Makes sure that `count` arrays of `length` can be taken one after the other without a failure. */
  reserve(count: number, length: number): void {
    const size = roundedUp(length)
    if (size === 0) return
    let missing = count
    for (const { free } of this.#slabs) for (const { start, end } of free) missing -= Math.floor((end - start) / size)
    if (missing > 0) this.#addSlab(missing * size)
  }

  /** An array of zeros. */
  take(length: number): Float32Array {
    const size = roundedUp(length)
    if (size === 0) return new Float32Array(0)
    for (const slab of this.#slabs) {
      const at = slab.free.findIndex(({ start, end }) => end - start >= size)
      if (at >= 0) return takeFrom(slab, at, length)
    }
    return takeFrom(this.#addSlab(size), 0, length)
  }

  /** Takes back an array that was taken here; nobody may use it any more. */
  give(array: Float32Array): void {
    if (array.length === 0) return
    const slab = this.#slabs.find(({ numbers }) => numbers.buffer === array.buffer)
    if (slab === undefined) throw new Error('memory was not taken here')
    const start = array.byteOffset / NUMBER_BYTES
    putBack(slab.free, { start, end: start + roundedUp(array.length) })
    if (isFree(slab) && this.sizeBytes > this.#maxBytes) this.trim()
  }

  /** Gives slabs that nobody uses back to the system. */
  trim(): void {
    const free = this.#slabs.filter(isFree)
    this.#slabs = this.#slabs.filter((slab) => !free.includes(slab))
    for (const { numbers } of free) freeNow(numbers.buffer)
  }

  #addSlab(size: number): Slab {
    const length = Math.max(size, SLAB_BYTES / NUMBER_BYTES)
    const slab = { numbers: new Float32Array(length), free: [{ start: 0, end: length }], touched: 0 }
    this.#slabs.push(slab)
    return slab
  }
}

/** A process that is idle does not collect garbage: the memory is moved into a message that nobody gets. */
function freeNow(memory: ArrayBufferLike): void {
  if (!(memory instanceof ArrayBuffer)) return
  const { port1, port2 } = new MessageChannel()
  port1.postMessage(null, [memory])
  port1.close()
  port2.close()
}

function takeFrom(slab: Slab, at: number, length: number): Float32Array {
  const { start, end } = slab.free[at] as Span
  const rest = start + roundedUp(length)
  if (rest === end) slab.free.splice(at, 1)
  else slab.free[at] = { start: rest, end }
  if (start < slab.touched) slab.numbers.fill(0, start, Math.min(start + length, slab.touched))
  slab.touched = Math.max(slab.touched, rest)
  return slab.numbers.subarray(start, start + length)
}

function putBack(free: Span[], { start, end }: Span): void {
  const next = free.findIndex((span) => span.end > start)
  const at = next < 0 ? free.length : next
  const [before, after] = [free[at - 1], free[at]]
  if (after !== undefined && after.start < end) throw new Error('memory was given back twice')
  const isBeforeJoined = before?.end === start
  const isAfterJoined = after?.start === end
  const joined = { start: isBeforeJoined ? before.start : start, end: isAfterJoined ? after.end : end }
  free.splice(isBeforeJoined ? at - 1 : at, Number(isBeforeJoined) + Number(isAfterJoined), joined)
}

function isFree({ numbers, free: [first] }: Slab): boolean {
  return first?.start === 0 && first.end === numbers.length
}

function roundedUp(length: number): number {
  return Math.ceil(length / UNIT) * UNIT
}
