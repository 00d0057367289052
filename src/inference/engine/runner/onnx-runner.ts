/**
 * Steps by ONNX Runtime: the step graph in a session, keys and values in JavaScript's memory, with copies where a device computes. Knows
 * nothing of requests.
 */
import { maxOf } from '#base/util/lists.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { AdapterSource } from '../generation.js'
import type { StepFetch } from '../logits-row.js'
import type {
  DecodePart,
  KvSequence,
  LoadedAdapter,
  ModelRunner,
  PrefillPart,
  RunnerThreads,
  Slot,
  SlotBatch,
  SlotRequest,
  StepRows,
} from '../model-runner.js'
import { AdapterStore, layoutOf } from './adapter-store.js'
import { KvMemory } from './kv-memory.js'
import { KvRun, runOf } from './kv-run.js'
import { type KvShape, kvBytesPerToken, roundedCapacity } from './kv-shape.js'
import { logitsRow } from './result-rows.js'
import type { LaneSlot } from './slot-lane.js'
import { laneOf, SlotLanes } from './slot-lanes.js'
import type { StepSequence } from './step-batch.js'
import { distinctAdapters, loadStepModel, type StepModel, type StepModelOptions } from './step-model.js'

export interface OnnxRunnerOptions extends StepModelOptions {
  /** Memory that is held for keys and values of slots, whether somebody uses it or not. */
  readonly kvBytes: number
  /** Memory for adapters not in use; default 256 MB. */
  readonly adapterBytes?: number | undefined
}

/** Attention scores of one layer of one step: 32 MB. */
const MAX_SCORES = 8e6
/** Activations of a larger step leave the processor's own memory: 512 tokens of a 135M model take half as long again as 4 x 128. */
const ACTIVATION_BYTES = 2 ** 21
const MOST_PREFILL = 512
const LEAST_PREFILL = 128

/** Loads the step graph of a prepared model. */
export async function loadOnnxRunner(options: OnnxRunnerOptions): Promise<ModelRunner> {
  return new OnnxRunner(await loadStepModel(options), options)
}

class OnnxRunner implements ModelRunner {
  readonly vocabularySize: number
  readonly bytesPerToken: number
  readonly mostPrefillTokens: number
  /** So many rows of a product take hardly longer than one. */
  readonly cheapDecodeTokens = 8
  readonly #model: StepModel
  readonly #shape: KvShape
  readonly #adapters: AdapterStore
  readonly #memory: KvMemory
  readonly #lanes: SlotLanes

  constructor(model: StepModel, { kvBytes, adapterBytes = 256e6 }: OnnxRunnerOptions) {
    const { layerCount, kvHeadCount, headSize, vocabularySize } = model.config
    this.#model = model
    this.#shape = { layerCount, kvHeadCount, headSize }
    this.vocabularySize = vocabularySize
    this.bytesPerToken = kvBytesPerToken(this.#shape)
    this.mostPrefillTokens = mostPrefillTokens(model.config)
    this.#adapters = new AdapterStore(model.config, adapterBytes)
    this.#memory = new KvMemory(kvBytes)
    this.#lanes = new SlotLanes(model, this.#shape, this.#memory)
  }

  get threads(): RunnerThreads {
    return this.#model.sessions
  }

  /** Attention scores [H, T, C+T] stay within a fixed memory; the graph holds several such tensors at once. */
  prefillLimit(length: number, budget: number): number {
    const columns = length + budget
    return Math.min(budget, Math.max(16, Math.floor(MAX_SCORES / (this.#model.config.headCount * columns))))
  }

  loadAdapter(source: AdapterSource): Promise<LoadedAdapter> {
    return this.#adapters.get(source)
  }

  forgetAdapters(digest?: string): void {
    if (digest === undefined) this.#adapters.clear()
    else this.#adapters.forget(digest)
  }

  createSequence(tokens: number): KvSequence {
    return new KvRun(this.#shape, tokens)
  }

  async prefill(parts: readonly PrefillPart[]): Promise<StepRows> {
    const runs = parts.map(({ sequence }) => runOf(sequence))
    const known = runs.find(({ length }) => length > 0)
    if (known !== undefined && runs.length > 1) throw new Error('a sequence that has tokens is computed alone')
    const { adapters, indexOf } = distinctAdapters(parts.map(({ adapter }) => layoutOf(adapter)))
    const sequences = parts.map(({ ids }, row): StepSequence => {
      return { row, member: 0, ids, promptLength: runs[row]?.length ?? 0, tailLength: 0, adapter: indexOf[row] ?? -1 }
    })
    const { logitRows, rowOf } = wantedRows(parts)
    const result = await this.#model.run(
      {
        sequences,
        groups: parts.length,
        width: 1,
        prompts: known?.cache ?? null,
        tails: null,
        logitRows,
        inverseTemperatures: logitRows.map(() => 1),
        adapters,
      },
      ['logprobs', 'logits'],
    )
    const tokens = maxOf(parts.map(({ ids }) => ids.length))
    const source = { data: result.newRows, slots: parts.length * this.#shape.kvHeadCount, width: 1, member: 0, tokens }
    return {
      row: (part, token) => logitsRow(result, rowOf(part, token), this.vocabularySize),
      keep: (part, count) => runs[part]?.append({ ...source, row: part, count }),
    }
  }

  get batches(): readonly SlotBatch[] {
    return this.#lanes.lanes
  }

  get slotBytes(): number {
    return this.#lanes.sizeBytes
  }

  allocate(prompt: KvSequence, request: SlotRequest): Slot {
    return this.#lanes.allocate(runOf(prompt), request)
  }

  fork(slot: Slot, promptTokens = 0): KvSequence {
    const own = ownSlot(slot)
    return laneOf(own).fork(own, promptTokens)
  }

  free(slot: Slot): void {
    this.#lanes.free(ownSlot(slot))
  }

  compact(isAwaited: (prompt: KvSequence) => boolean): void {
    this.#lanes.compact(isAwaited)
  }

  async decode(parts: readonly DecodePart[], fetch: readonly StepFetch[]): Promise<StepRows> {
    const own = parts.map((part) => ({ ...part, slot: ownSlot(part.slot) }))
    const [first] = own
    if (first === undefined) throw new Error('a step has at least one slot')
    return await laneOf(first.slot).step(own, fetch)
  }

  trim(): void {
    this.#memory.trim()
  }

  async release(): Promise<void> {
    await this.#model.release()
  }
}

/** Tokens of the largest step when no choice runs. */
export function mostPrefillTokens({ mlpSize }: Pick<DecoderConfig, 'mlpSize'>): number {
  const tokens = ACTIVATION_BYTES / (2 * mlpSize * Float32Array.BYTES_PER_ELEMENT)
  return Math.min(MOST_PREFILL, Math.max(LEAST_PREFILL, roundedCapacity(tokens)))
}

/** Flat rows whose logits a step needs. A flat row is a new token's place when all are written one part after the other. */
function wantedRows(parts: readonly PrefillPart[]): {
  readonly logitRows: readonly number[]
  readonly rowOf: (part: number, token: number) => number
} {
  const logitRows: number[] = []
  const indexOf = new Map<number, number>()
  const starts: number[] = []
  let flat = 0
  for (const { ids, rows } of parts) {
    starts.push(flat)
    const last = flat + ids.length - 1
    for (let row = rows === 'all' ? flat : last; row <= last && rows !== 'none'; row++) {
      indexOf.set(row, logitRows.push(row) - 1)
    }
    flat = last + 1
  }
  const rowOf = (part: number, token: number): number => {
    const index = indexOf.get((starts[part] ?? Number.NaN) + token)
    if (index === undefined) throw new Error(`no row of token ${token} of part ${part} was asked for`)
    return index
  }
  return { logitRows, rowOf }
}

function ownSlot(slot: Slot): LaneSlot {
  if (isOwn(slot)) return slot
  throw new Error('the slot is of another runner')
}

function isOwn(slot: Slot): slot is LaneSlot {
  return slot.prompt instanceof KvRun && 'lane' in slot
}
