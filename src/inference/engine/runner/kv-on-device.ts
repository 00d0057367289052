/**
 * Copies of caches on a device, which follow what changes in them: a step then takes its keys and values where it computes, and what
 * crosses to the device are the tokens of the step before. Knows nothing of the step graph or requests.
 *
 * JavaScript's memory stays the owner, for forks, prefixes and what the device loses; a copy may be dropped at any time and is made
 * anew when it is next asked for. What is written is scattered into a copy, rows and columns that move are gathered there: both take
 * memory for a second one for as long as they last.
 */
import { GraphBuilder } from '#numerics/graph/builder.js'
import { gather, scatterND } from '#numerics/graph/ops/indexing.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { DeviceTensor, Feeds, ResidentSession, Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { KvCache } from './kv-cache.js'
import type { KvChanges, KvWritten } from './kv-changes.js'
import type { KvShape } from './kv-shape.js'

export interface KvOnDeviceOptions {
  readonly shape: KvShape
  /** Memory of all copies, until a device refuses as much; the one that was asked for longest ago goes first. */
  readonly mostBytes: number
  /** A folder that sessions may name; nothing is written there. */
  readonly directory: string
}

/** The copy of one cache. */
interface Copy {
  readonly changes: KvChanges
  /** [slots, C, D] of every layer: keys, values, keys of the next … */
  tensors: readonly DeviceTensor[]
  rows: number
  capacity: number
  /** Whether some of it, forgotten or not, is no number. */
  holdsNonNumbers: boolean
}

const ROWS = 'rows'
const COLUMNS = 'columns'
const PLACES = 'places'

export class KvOnDevice {
  readonly #shape: KvShape
  #mostBytes: number
  readonly #write: ResidentSession
  readonly #move: ResidentSession
  readonly #copyOf = new WeakMap<KvCache, Copy>()
  /** The one that was asked for last comes last. */
  readonly #copies = new Set<Copy>()
  /** Caches of sequences are left to the collector, which does not know of their copies. */
  readonly #collected = new FinalizationRegistry<Copy>((copy) => this.#drop(copy))

  private constructor({ shape, mostBytes }: KvOnDeviceOptions, write: ResidentSession, move: ResidentSession) {
    this.#shape = shape
    this.#mostBytes = mostBytes
    this.#write = write
    this.#move = move
  }

  /** @returns null where the runtime's device keeps nothing */
  static async open(runtime: Runtime, options: KvOnDeviceOptions): Promise<KvOnDevice | null> {
    const { directory, shape } = options
    const load = (graph: GraphBuilder): Promise<ResidentSession | null> =>
      runtime.loadResident({ bytes: toOnnxModel(graph.build(), `${directory}/${graph.name}.onnx`), directory })
    const write = await load(writingGraph(shape))
    if (write === null) return null
    let move: ResidentSession | null = null
    try {
      move = await load(movingGraph(shape))
    } finally {
      if (move === null) await write.release()
    }
    return move === null ? null : new KvOnDevice(options, write, move)
  }

  /**
   * The dense tensors [rows * K * width, C, D] of caches as they are now, in the order of layers and sides. Valid until the next call.
   *
   * @param caches with at least one row and a capacity each
   * @throws {AppError} of the device (`device-errors.ts`); then there are no copies any more
   */
  async tensorsOf(caches: readonly KvCache[]): Promise<readonly (readonly DeviceTensor[])[]> {
    const copies = caches.map((cache) => this.#copyFor(cache))
    try {
      for (const [at, copy] of copies.entries()) await this.#follow(copy, caches[at] as KvCache)
    } catch (error) {
      // one may be half of one, and what the others hold may be the memory that was missing
      this.drop()
      throw error
    }
    this.#keepWithin(copies)
    return copies.map(({ tensors }) => tensors)
  }

  /**
   * Gives all copies back, because the device has refused memory. What they took was too much: from then on they take half of it.
   *
   * @returns whether there were any
   */
  drop(): boolean {
    const bytes = this.#heldBytes()
    if (bytes > 0) this.#mostBytes = Math.min(this.#mostBytes, bytes / 2)
    for (const copy of this.#copies) this.#drop(copy)
    return bytes > 0
  }

  async release(): Promise<void> {
    for (const copy of this.#copies) this.#drop(copy)
    await this.#write.release()
    await this.#move.release()
  }

  #copyFor(cache: KvCache): Copy {
    let copy = this.#copyOf.get(cache)
    if (copy === undefined) {
      copy = { changes: cache.watch(), tensors: [], rows: 0, capacity: 0, holdsNonNumbers: false }
      this.#copyOf.set(cache, copy)
      this.#collected.register(cache, copy)
    }
    this.#copies.delete(copy)
    this.#copies.add(copy)
    return copy
  }

  async #follow(copy: Copy, cache: KvCache): Promise<void> {
    const { rowCount: rows, capacity } = cache
    const { origins, written, isAnew, isCleared } = copy.changes.take(rows)
    const some = origins.find((origin) => origin >= 0)
    const isMoved = capacity !== copy.capacity || rows !== copy.rows || origins.some((origin, row) => origin !== row)
    // what nobody wrote, or is forgotten, is masked: zero times a number is zero
    const isSpoiled = copy.holdsNonNumbers && (isCleared || isMoved)
    if (isAnew || isSpoiled || copy.tensors.length === 0 || some === undefined) {
      const from = this.#onHost(cache)
      copy.holdsNonNumbers = !from.every(({ data }) => areNumbers(data))
      await this.#scatter(copy, cache, { from, written: [{ row: 0, member: 0, start: 0, count: 1 }] })
    } else {
      if (isMoved) await this.#gather(copy, cache, { origins, some })
      if (written.length > 0) await this.#scatter(copy, cache, { from: copy.tensors, written })
    }
    copy.rows = rows
    copy.capacity = capacity
  }

  /** Tensors with what was written, read from the cache. */
  async #scatter(
    copy: Copy,
    cache: KvCache,
    {
      from,
      written,
    }: { readonly from: readonly (HostTensor | DeviceTensor)[]; readonly written: readonly KvWritten[] },
  ): Promise<void> {
    const { kvHeadCount, headSize } = this.#shape
    const { width, capacity } = cache
    const spans = written.flatMap(({ row, member, start, count }) =>
      Array.from({ length: kvHeadCount }, (_, k) => ({ slot: (row * kvHeadCount + k) * width + member, start, count })),
    )
    const tokens = spans.reduce((sum, { count }) => sum + count, 0)
    const places = new BigInt64Array(2 * tokens)
    let at = 0
    for (const { slot, start, count } of spans) {
      for (let token = start; token < start + count; token++) {
        places[at++] = BigInt(slot)
        places[at++] = BigInt(token)
      }
    }
    const feeds: Record<string, HostTensor | DeviceTensor> = {
      [PLACES]: { dtype: 'int64', shape: [tokens, 2], data: places },
    }
    for (const [index, old] of from.entries()) {
      const side = cache.tensor(index >> 1, index % 2 === 0 ? 0 : 1).data
      const fresh = new Float32Array(tokens * headSize)
      let end = 0
      for (const { slot, start, count } of spans) {
        const begin = (slot * capacity + start) * headSize
        fresh.set(side.subarray(begin, begin + count * headSize), end)
        end += count * headSize
      }
      if (!areNumbers(fresh)) copy.holdsNonNumbers = true
      feeds[cacheName(index)] = old
      feeds[freshName(index)] = float32Tensor(fresh, [tokens, headSize])
    }
    await this.#replace(copy, this.#write, feeds)
  }

  /** Tensors whose rows and columns are those of the cache now. */
  async #gather(
    copy: Copy,
    { rowCount, capacity, width }: KvCache,
    { origins, some }: { readonly origins: readonly number[]; readonly some: number },
  ): Promise<void> {
    const heads = this.#shape.kvHeadCount * width
    const rows = Int32Array.from({ length: rowCount * heads }, (_, slot) => {
      const origin = origins[Math.floor(slot / heads)] ?? -1
      return (origin < 0 ? some : origin) * heads + (slot % heads)
    })
    const columns = Int32Array.from({ length: capacity }, (_, column) => Math.min(column, copy.capacity - 1))
    const feeds: Record<string, HostTensor | DeviceTensor> = {
      [ROWS]: { dtype: 'int32', shape: [rows.length], data: rows },
      [COLUMNS]: { dtype: 'int32', shape: [capacity], data: columns },
    }
    for (const [index, tensor] of copy.tensors.entries()) feeds[cacheName(index)] = tensor
    await this.#replace(copy, this.#move, feeds)
  }

  async #replace(copy: Copy, session: ResidentSession, feeds: Feeds): Promise<void> {
    const outputs = await session.run(feeds)
    for (const old of copy.tensors) old.dispose()
    copy.tensors = Array.from({ length: 2 * this.#shape.layerCount }, (_, index) => {
      const tensor = outputs[resultName(index)]
      if (tensor === undefined) throw new Error(`no copy of side ${index} of the cache came back`)
      return tensor
    })
  }

  #onHost(cache: KvCache): readonly HostTensor<'float32'>[] {
    return Array.from({ length: 2 * this.#shape.layerCount }, (_, index) =>
      cache.tensor(index >> 1, index % 2 === 0 ? 0 : 1),
    )
  }

  #keepWithin(asked: readonly Copy[]): void {
    for (const copy of this.#copies) if (copy.changes.isReleased) this.#drop(copy)
    let bytes = this.#heldBytes()
    for (const copy of this.#copies) {
      if (bytes <= this.#mostBytes) return
      if (asked.includes(copy)) continue
      bytes -= bytesOf(copy)
      this.#drop(copy)
    }
  }

  #heldBytes(): number {
    let bytes = 0
    for (const copy of this.#copies) bytes += bytesOf(copy)
    return bytes
  }

  #drop(copy: Copy): void {
    this.#copies.delete(copy)
    for (const tensor of copy.tensors) tensor.dispose()
    copy.tensors = []
  }
}

function bytesOf({ tensors }: Copy): number {
  const numbers = tensors.reduce((sum, { shape }) => sum + shape.reduce((product, dim) => product * dim, 1), 0)
  return numbers * Float32Array.BYTES_PER_ELEMENT
}

function areNumbers(data: Float32Array): boolean {
  for (let i = 0; i < data.length; i++) if (!Number.isFinite(data[i])) return false
  return true
}

function cacheName(index: number): string {
  return `cache.${index}`
}

function freshName(index: number): string {
  return `fresh.${index}`
}

function resultName(index: number): string {
  return `result.${index}`
}

/** Writes tokens into every side. */
function writingGraph({ layerCount, headSize }: KvShape): GraphBuilder {
  const g = new GraphBuilder('kv_write')
  const places = g.input(PLACES, 'int64', ['N', 2])
  for (let index = 0; index < 2 * layerCount; index++) {
    const cache = g.input(cacheName(index), 'float32', ['S', 'C', headSize])
    const fresh = g.input(freshName(index), 'float32', ['N', headSize])
    g.output(scatterND(g, cache, places, fresh), resultName(index))
  }
  return g
}

/** Takes rows and columns of every side. */
function movingGraph({ layerCount, headSize }: KvShape): GraphBuilder {
  const g = new GraphBuilder('kv_move')
  const rows = g.input(ROWS, 'int32', ['R'])
  const columns = g.input(COLUMNS, 'int32', ['P'])
  for (let index = 0; index < 2 * layerCount; index++) {
    const cache = g.input(cacheName(index), 'float32', ['S', 'C', headSize])
    g.output(gather(g, gather(g, cache, rows), columns, 1), resultName(index))
  }
  return g
}
