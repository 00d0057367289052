/**
 * The choices that are being decoded, one cache row each, and the step that gives every one of them a token.
 */

import { AppError } from '#base/errors.js'
import type { ActiveRequest } from './active-request.js'
import { type KvBlock, KvCache, type KvShape } from './cache/kv-cache.js'
import { PREFIX_BLOCK_TOKENS } from './cache/prefix-cache.js'
import type { TokenEvent } from './generation.js'
import type { Choice } from './sampling/choice.js'
import { logitsRow } from './sampling/logits-row.js'
import { distinctAdapters, type StepFetch, type StepModel } from './step-model.js'

interface Row {
  readonly active: ActiveRequest
  readonly choice: Choice
}

/** Smallest growth of the cache's capacity, in tokens. */
const CAPACITY_STEP = 32

/** Rows of the decode step. */
export class DecodeBatch {
  readonly #model: StepModel
  readonly #cache: KvCache
  readonly #rows: Row[] = []

  constructor(model: StepModel, size: { shape: KvShape; maxRows: number; contextLength: number }) {
    this.#model = model
    this.#cache = new KvCache(size.shape, size.maxRows, size.contextLength)
  }

  get rowCount(): number {
    return this.#rows.length
  }

  /** Tokens of the longest row. */
  get longest(): number {
    return Math.max(0, ...this.#cache.lengths)
  }

  /** Adds a choice whose first token is sampled, copying its prompt's keys and values. */
  add(active: ActiveRequest, choice: Choice, prompt: KvCache): void {
    this.#reserve(Math.max(this.longest, prompt.lengths[0] ?? 0) + 1)
    const row = this.#cache.addRow()
    this.#cache.appendRow(row, prompt, 0)
    this.#rows.push({ active, choice })
  }

  /**
   * Frees a choice's row; does nothing if it has none.
   *
   * @param store called first, with a reader of the row's blocks
   */
  remove(choice: Choice, store?: (read: (start: number) => KvBlock) => void): void {
    const row = this.#rows.findIndex((other) => other.choice === choice)
    if (row < 0) return
    store?.((start) => this.#cache.readBlock(row, start, PREFIX_BLOCK_TOKENS))
    const moved = this.#cache.removeRow(row)
    const last = this.#rows.pop()
    if (moved !== row && last !== undefined) this.#rows[row] = last
  }

  /** One token for every row. The events are in row order; an error concerns its request only. */
  async step(): Promise<readonly { readonly active: ActiveRequest; readonly event: TokenEvent | AppError }[]> {
    const rows = [...this.#rows]
    const starts = [...this.#cache.lengths]
    this.#reserve(Math.max(...starts) + 1)
    const fetch = new Set<StepFetch>(rows.flatMap(({ choice }) => choice.fetch))
    const { adapters, indexOf } = distinctAdapters(rows.map(({ active }) => active.layout))
    const result = await this.#model.run(
      {
        ids: Int32Array.from(rows, ({ choice }) => choice.outputIds[choice.outputIds.length - 1] ?? 0),
        batch: rows.length,
        tokens: 1,
        starts,
        cache: this.#cache,
        logitRows: rows.map((_, row) => row),
        inverseTemperatures: rows.map(({ choice }) => choice.inverseTemperature),
        adapters,
        adapterOfSequence: indexOf,
      },
      [...fetch],
    )
    const batch = rows.length
    rows.forEach((_, index) => {
      this.#cache.append(index, result.newRows, { batch, index, tokens: 1, count: 1 })
    })
    return rows.map(({ active, choice }, index) => {
      const event = choice.next(logitsRow(result, index, this.#model.config.vocabularySize))
      // A row of NaN must not reach whoever gets its memory next: 0 times NaN is NaN.
      if (event instanceof AppError) this.#cache.truncateRow(index, 0)
      return { active, event }
    })
  }

  /** Makes C at least `tokens`: tight, because every step pays for it, but not one by one, because rows must move. */
  #reserve(tokens: number): void {
    const { capacity, maxTokens } = this.#cache
    if (this.#cache.rowCount > 0 && tokens <= capacity && capacity <= 2 * tokens + CAPACITY_STEP) return
    const step = Math.max(CAPACITY_STEP, Math.ceil(tokens / 8 / CAPACITY_STEP) * CAPACITY_STEP)
    this.#cache.setCapacity(Math.min(maxTokens, Math.ceil(tokens / step) * step))
  }
}
