/**
 * The order that rows of a file are trained in, and which of them are held out to be measured on.
 *
 * Both follow from the seed and the number of rows, so that a job that goes on after a kill reads the same rows in the same order.
 * A file of any size is read in the memory of one block: its order is cut into blocks, and each block is collected in a pass of its
 * own over the file. Knows lines, not what is in them.
 */
import { createRng } from '#base/util/rng.js'
import { type Line, type LineOptions, readLines } from './json-lines.js'

/** Text that is held at once while rows are put in order. */
const BLOCK_BYTES = 64 * 1024 * 1024

/** Which rows train, and which are measured on. */
export interface RowOrder {
  /** Positions among the rows of the file, from 0, in training order. */
  readonly trained: Int32Array
  /** In the order of the file. */
  readonly heldOut: Int32Array
  /** Characters of a row on average. */
  readonly meanLength: number
}

/**
 * Reads a file once to count its rows, and puts them in order.
 *
 * @param open a stream of the file from its beginning
 * @param options.seed of the order and of what is held out; both ask one generator
 * @param options.isShuffled false keeps the order of the file
 * @param options.heldOutShare from 0 to below 1; of n rows round(n * share) are held out, at least one where it is not 0, and never
 *   all
 */
export async function orderRows(
  open: () => AsyncIterable<Uint8Array>,
  {
    seed,
    isShuffled,
    heldOutShare,
    ...lines
  }: LineOptions & { readonly seed: string | number; readonly isShuffled: boolean; readonly heldOutShare: number },
): Promise<RowOrder> {
  let count = 0
  let length = 0
  for await (const { text } of rowsOf(open(), lines)) {
    count += 1
    length += text.length
  }
  const permuted = permutation(count, seed)
  const wanted = heldOutShare === 0 ? 0 : Math.max(1, Math.round(count * heldOutShare))
  const heldOutCount = Math.min(wanted, Math.max(0, count - 1))
  const heldOut = permuted.slice(0, heldOutCount).sort()
  const rest = permuted.slice(heldOutCount)
  return { trained: isShuffled ? rest : rest.sort(), heldOut, meanLength: length / Math.max(1, count) }
}

/**
 * Reads the rows of a file in an order.
 *
 * @param positions of rows among those of the file, each once
 * @param options.meanLength of a row, in characters: how many rows make a block
 * @returns the lines with the numbers they have in the file
 */
export async function* readInOrder(
  open: () => AsyncIterable<Uint8Array>,
  positions: Int32Array,
  {
    meanLength,
    blockBytes = BLOCK_BYTES,
    ...lines
  }: LineOptions & { readonly meanLength: number; readonly blockBytes?: number },
): AsyncGenerator<Line> {
  const blockRows = Math.max(1, Math.floor(blockBytes / Math.max(1, meanLength)))
  for (let start = 0; start < positions.length; start += blockRows) {
    const block = positions.subarray(start, start + blockRows)
    const places = new Map([...block].map((position, place) => [position, place]))
    const found: Line[] = []
    let position = 0
    for await (const line of rowsOf(open(), lines)) {
      const place = places.get(position)
      if (place !== undefined) found[place] = line
      position += 1
    }
    yield* found
  }
}

/** Lines that are no blank ones. */
async function* rowsOf(source: AsyncIterable<Uint8Array>, options: LineOptions): AsyncGenerator<Line> {
  for await (const line of readLines(source, options)) if (line.text.trim() !== '') yield line
}

/** 0 to n - 1 in random order (Fisher and Yates, as Durstenfeld wrote it, CACM 7, 1964). */
function permutation(count: number, seed: string | number): Int32Array {
  const rng = createRng(`rows ${seed}`)
  const order = Int32Array.from({ length: count }, (_, position) => position)
  for (let last = count - 1; last > 0; last -= 1) {
    const other = rng.integer(last + 1)
    const value = order[last] as number
    order[last] = order[other] as number
    order[other] = value
  }
  return order
}
