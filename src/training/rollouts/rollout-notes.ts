/**
 * Records what a job's trainer computes for each token it trains on, and encodes it when the job ends
 * (`contract/processes/rollouts.ts`).
 *
 * Only reads what a step has computed anyway: recording does not change one bit of the training. Memory: the tokens of
 * all sequences and, for each trained token, one number per column, up to a limit; sequences beyond it are counted and
 * not kept.
 */
import {
  MAX_NOTED_TOKENS,
  ROLLOUT_COLUMNS,
  type RolloutColumn,
  type RolloutSequence,
  type RolloutsHead,
  type RolloutTrajectory,
  sequenceBytes,
} from '#contract/processes/rollouts.js'
import type { PackedRow, PackedSequence } from '#training/rows/pack.js'
import type { TokenOutputs } from '#training/trainer/learner/learner.js'
import { type RowBatch, rowOf } from '#training/trainer/row-batch.js'

/** What a token is called, and whether it is of the model's control tokens. */
export interface TokenNames {
  bytesOf(id: number): Uint8Array
  isControl(id: number): boolean
}

/** A group as it is listed. */
export interface NotedGroup {
  /** What its members were asked, shortened. */
  readonly preview: string
  readonly exceptions: number
  readonly trajectories: readonly RolloutTrajectory[]
}

/** What is known before the first step. */
export interface NotedJob {
  readonly groups: readonly NotedGroup[]
  readonly clip: RolloutsHead['clip']
  readonly parentStep: number
  /** Sequences of each gradient step, in the order of training. */
  readonly stepSequences: readonly number[]
  /** Steps that an earlier attempt made. */
  readonly stepsBefore: number
}

/** A micro-batch of a step, with what the ratio was taken against where that is not the sampler's. */
export interface NotedBatch {
  readonly rows: readonly PackedRow[]
  readonly batch: RowBatch
  readonly trainerLogp: Float32Array | null
  readonly referenceLogp: Float32Array | null
}

/** The notes of one attempt. */
export interface RolloutNotes {
  begin(job: NotedJob): void
  /** @param step number of the gradient step in its job, from 1 */
  addStep(step: number, batches: readonly NotedBatch[], outputs: readonly TokenOutputs[]): void
  /** Null before `begin`. */
  encode(): EncodedRollouts | null
}

export interface EncodedRollouts {
  readonly bytes: Uint8Array
  readonly groups: number
  readonly trajectories: number
}

interface KeptSequence extends Omit<RolloutSequence, 'offset'> {
  readonly ids: Int32Array
  readonly mask: Uint8Array
  readonly columns: ReadonlyMap<RolloutColumn, Float32Array>
}

/** @param maxBytes beyond it sequences are only counted, as are those that are too long */
export function createRolloutNotes(names: TokenNames, maxBytes: number): RolloutNotes {
  let job: NotedJob | null = null
  const kept: KeptSequence[] = []
  let bytes = 0
  let dropped = 0
  return {
    begin: (noted) => {
      job = noted
    },
    addStep: (step, batches, outputs) => {
      batches.forEach((batch, at) => {
        const output = outputs[at]
        if (output === undefined) return
        for (const sequence of sequencesOf(step, batch, output)) {
          const isNotable = sequence.length <= MAX_NOTED_TOKENS
          if (isNotable) bytes += sequenceBytes(sequence.length, sequence.trained, ROLLOUT_COLUMNS.length)
          if (isNotable && bytes <= maxBytes) kept.push(sequence)
          else dropped += 1
        }
      })
    },
    encode: () => {
      if (job === null) return null
      const trajectories = job.groups.reduce((sum, group) => sum + group.trajectories.length, 0)
      return { bytes: encode(job, { kept, dropped }, names), groups: job.groups.length, trajectories }
    },
  }
}

/** The sequences of a micro-batch, each in its own order of tokens. */
function sequencesOf(step: number, noted: NotedBatch, output: TokenOutputs): KeptSequence[] {
  const { rows, batch } = noted
  const places = new Map<PackedSequence, { readonly index: number; readonly n: number }[]>()
  batch.trained.forEach((token, n) => {
    const owner = ownerOf(rowOf(rows, token), token.index)
    if (owner === null) return
    const list = places.get(owner)
    if (list === undefined) places.set(owner, [{ index: token.index, n }])
    else list.push({ index: token.index, n })
  })
  return rows.flatMap((row) => row.sequences.map((packed) => toKept(step, row, packed, places.get(packed) ?? [])))

  function toKept(
    gradientStep: number,
    row: PackedRow,
    packed: PackedSequence,
    tokens: readonly { readonly index: number; readonly n: number }[],
  ): KeptSequence {
    const { prefixStart, prefixLength, start, end } = packed
    const ids = new Int32Array(prefixLength + end - start)
    ids.set(row.tokens.subarray(prefixStart, prefixStart + prefixLength))
    ids.set(row.tokens.subarray(start, end), prefixLength)
    const mask = new Uint8Array(ids.length)
    for (const { index } of tokens) mask[prefixLength + index - start] = 1
    const read = (of: (place: { readonly index: number; readonly n: number }) => number): Float32Array =>
      Float32Array.from(tokens, of)
    const sampler = read(({ index }) => row.logprobs[index] ?? Number.NaN)
    const columns = new Map<RolloutColumn, Float32Array>([
      ['sampler_logprob', sampler],
      ['old_logprob', noted.trainerLogp === null ? sampler : read(({ n }) => noted.trainerLogp?.[n] ?? Number.NaN)],
      ['learner_logprob', read(({ n }) => output.logp[n] ?? Number.NaN)],
      ['ratio', read(({ n }) => output.ratio?.[n] ?? Number.NaN)],
      ['entropy', read(({ n }) => output.entropy[n] ?? Number.NaN)],
      ['reference_logprob', read(({ n }) => noted.referenceLogp?.[n] ?? Number.NaN)],
      ['temperature', read(({ index }) => otherThanOne(row.sampling?.temperatures[index]))],
      ['kept', read(({ index }) => row.sampling?.kept.get(index)?.length ?? Number.NaN)],
    ])
    const entropy = tokens.reduce((sum, { n }) => sum + (output.entropy[n] ?? Number.NaN), 0)
    return {
      group: packed.groupIndex,
      trajectory: packed.trajectoryIndex,
      step: gradientStep,
      length: ids.length,
      trained: tokens.length,
      entropy: Number.isFinite(entropy) ? entropy : null,
      ids,
      mask,
      columns,
    }
  }
}

function otherThanOne(temperature = 1): number {
  return temperature === 1 ? Number.NaN : temperature
}

/** The sequence whose own part a token of a row is in: trained tokens never lie in a shared prompt. */
function ownerOf({ sequences }: PackedRow, index: number): PackedSequence | null {
  let low = 0
  let high = sequences.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const sequence = sequences[middle] as PackedSequence
    if (index < sequence.start) high = middle - 1
    else if (index >= sequence.end) low = middle + 1
    else return sequence
  }
  return null
}

function encode(
  job: NotedJob,
  { kept, dropped }: { readonly kept: readonly KeptSequence[]; readonly dropped: number },
  names: TokenNames,
): Uint8Array {
  const columns = ROLLOUT_COLUMNS.filter((name) =>
    kept.some((sequence) => sequence.columns.get(name)?.some((value) => !Number.isNaN(value)) === true),
  )
  const ids = [...new Set(kept.flatMap((sequence) => [...new Set(sequence.ids)]))].sort((a, b) => a - b)
  const texts = ids.map((id) => names.bytesOf(id))
  const textBytes = texts.reduce((sum, text) => sum + text.length, 0)
  let offset = 0
  const sequences = kept.map(({ ids: _ids, mask: _mask, columns: _columns, ...sequence }) => {
    const at = offset
    offset += sequenceBytes(sequence.length, sequence.trained, columns.length)
    return { ...sequence, offset: at }
  })
  const countOf = (steps: readonly number[]): number => steps.reduce((sum, count) => sum + count, 0)
  const omitted = countOf(job.stepSequences.slice(0, job.stepsBefore)) + dropped
  const head: RolloutsHead = {
    version: 1,
    clip: job.clip,
    columns,
    parent_step: job.parentStep,
    groups: job.groups.map((group) => ({ ...group, trajectories: [...group.trajectories] })),
    sequences,
    omitted,
    untrained: countOf(job.stepSequences) - omitted - kept.length,
    pieces: { offset, count: ids.length, bytes: textBytes },
  }
  const line = Buffer.from(`${JSON.stringify(head)}\n`)
  const file = Buffer.alloc(line.length + offset + ids.length * 9 + textBytes)
  line.copy(file)
  let at = line.length
  const put = (values: Int32Array | Float32Array | Uint8Array): void => {
    file.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at)
    at += values.byteLength
  }
  for (const sequence of kept) {
    put(sequence.ids)
    for (const name of columns) put(sequence.columns.get(name) ?? new Float32Array(sequence.trained).fill(Number.NaN))
    put(sequence.mask)
    at = line.length + Math.ceil((at - line.length) / 4) * 4
  }
  let end = 0
  put(Int32Array.from(ids))
  put(
    Int32Array.from(texts, (text) => {
      end += text.length
      return end
    }),
  )
  put(Uint8Array.from(ids, (id) => (names.isControl(id) ? 1 : 0)))
  for (const text of texts) put(text)
  return file
}
