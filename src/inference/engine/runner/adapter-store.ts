/**
 * Adapters in memory, laid out for the step graph; the least recently used leave when the budget is exceeded.
 *
 * A lease keeps its layout alive by reference, so forgetting or evicting an adapter never disturbs running requests.
 */
import { setImmediate } from 'node:timers/promises'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { AdapterSource } from '../generation.js'
import type { LoadedAdapter } from '../model-runner.js'
import { type AdapterLayout, layoutAdapterInPieces } from './adapter-layout.js'

/** How long a new adapter may keep the engine's thread from its next step. */
const PIECE_MS = 5

/** Loads adapters on demand and keeps recent ones. */
export class AdapterStore {
  readonly #config: DecoderConfig
  readonly #maxBytes: number
  /** Insertion order is use order. Promises, so that concurrent requests share one load. */
  readonly #layouts = new Map<string, Promise<AdapterLayout>>()
  readonly #sizes = new Map<string, number>()

  constructor(config: DecoderConfig, maxBytes: number) {
    this.#config = config
    this.#maxBytes = maxBytes
  }

  /**
   * The layout of an adapter, loaded if needed.
   *
   * @throws {WeightsError} if its files cannot be read or do not fit the base model
   */
  async get(source: AdapterSource): Promise<AdapterLayout> {
    const known = this.#layouts.get(source.digest)
    const layout = known ?? this.#load(source)
    this.#layouts.delete(source.digest)
    this.#layouts.set(source.digest, layout)
    return await layout
  }

  /** Drops an adapter; running requests keep theirs. */
  forget(digest: string): void {
    this.#layouts.delete(digest)
    this.#sizes.delete(digest)
  }

  /** Drops all; running requests keep theirs. */
  clear(): void {
    this.#layouts.clear()
    this.#sizes.clear()
  }

  async #load(source: AdapterSource): Promise<AdapterLayout> {
    try {
      const layout = await layoutAdapterInPieces(this.#config, await source.load(), pausing())
      this.#sizes.set(source.digest, layout.sizeBytes)
      this.#evict(source.digest)
      return layout
    } catch (error) {
      this.forget(source.digest)
      throw error
    }
  }

  #evict(newest: string): void {
    let total = [...this.#sizes.values()].reduce((sum, size) => sum + size, 0)
    for (const digest of [...this.#layouts.keys()]) {
      if (total <= this.#maxBytes) return
      if (digest === newest || !this.#sizes.has(digest)) continue
      total -= this.#sizes.get(digest) ?? 0
      this.forget(digest)
    }
  }
}

/** The layout behind an adapter that a store has given. */
export function layoutOf(adapter: LoadedAdapter | null): AdapterLayout | null {
  if (adapter === null) return null
  if (isLayout(adapter)) return adapter
  throw new Error('the adapter is of another runner')
}

function isLayout(adapter: LoadedAdapter): adapter is AdapterLayout {
  return 'layers' in adapter && 'widths' in adapter
}

/** Lets the engine step whenever a piece's time is up. */
function pausing(): () => Promise<void> {
  let sinceMs = performance.now()
  return async () => {
    if (performance.now() - sinceMs < PIECE_MS) return
    await setImmediate()
    sinceMs = performance.now()
  }
}
