/**
 * How the tokens of sequences and rows were drawn, as the trainer computes it: log q(a) = z_a / T - log sum over K of exp(z_k / T), K the tokens
 * that could be drawn. The distribution that is trained is the one that was sampled.
 *
 * Where a choice says how it was sampled (`formats/rows/sampling-record.ts`), old log-probabilities are those of its record. What nobody
 * wrote down the trainer computes before the first step, if the answer is of the weights that the job starts from. Anything else counts as
 * drawn from the policy being trained: its ratio is 1.
 */
import { type DrawnRecord, drawnAs } from '#contract/jobs/diagnosis/sampling-facts.js'
import { type ChoiceSampling, keptAt } from '../../formats/rows/sampling-record.js'
import type { Trajectory } from '../../formats/rows/trajectory.js'
import type { TrainableTurn } from './turns.js'

/** Of a sequence or a row of T tokens. */
export interface RowSampling {
  /** Of each token, above 0; 1 where nothing was sampled. [T] */
  readonly temperatures: Float32Array
  /** By index of a token the ids that could have stood in its place, itself among them; those that are missing could be any. */
  readonly kept: ReadonlyMap<number, Int32Array>
  /** 1 where the trainer computes the old log-probability before the first step. [T] */
  readonly isOldComputed: Uint8Array
}

/** A choice's record as it is counted. */
export function drawnRecord(sampling: ChoiceSampling): DrawnRecord {
  const { temperature, logprobs, keptFrom, unmodelled } = sampling
  return {
    temperature,
    hasLogprobs: logprobs !== null,
    keptAt: (t) => (keptFrom[t + 1] ?? 0) - (keptFrom[t] ?? 0),
    unmodelled,
  }
}

/** Whether a trajectory says that a step of the model sampled all of it. */
export function isSampledFrom(
  { initialPolicyVersion, finalPolicyVersion }: Pick<Trajectory, 'initialPolicyVersion' | 'finalPolicyVersion'>,
  step: number | undefined,
): boolean {
  return (
    step !== undefined && initialPolicyVersion === step && (finalPolicyVersion === null || finalPolicyVersion === step)
  )
}

/** Old log-probabilities of a sequence, NaN where they are not known, and how its tokens were drawn; null where plainly. */
export interface SequenceSampling {
  readonly logprobs: Float32Array
  readonly sampling: RowSampling | null
}

/**
 * Lays out the turns of one sequence.
 *
 * @param length tokens of the sequence
 */
export function sequenceSampling(
  turns: readonly TrainableTurn[],
  length: number,
  isOfStart: boolean,
): SequenceSampling {
  const logprobs = new Float32Array(length).fill(Number.NaN)
  const own = turns.some(({ sampling }) => sampling != null) ? plainSampling(length) : null
  for (const turn of turns) {
    const start = turn.promptIds.length
    const { sampling } = turn
    if (sampling == null || own === null) {
      if (turn.logprobs !== null) logprobs.set(turn.logprobs, start)
      continue
    }
    const given = sampling.logprobs ?? turn.logprobs
    const record = drawnRecord(sampling)
    own.temperatures.fill(sampling.temperature, start, start + turn.completionIds.length)
    for (let t = 0; t < turn.completionIds.length; t += 1) {
      const kept = keptAt(sampling, t)
      if (kept !== null) own.kept.set(start + t, kept)
      const as = drawnAs({ record, isOfStart }, t)
      if (as === 'recorded' || as === 'plain') logprobs[start + t] = given?.[t] ?? Number.NaN
      if (as === 'computed') own.isOldComputed[start + t] = 1
    }
  }
  return { logprobs, sampling: own }
}

/** A sampling that is written into. */
export type WritableSampling = RowSampling & { readonly kept: Map<number, Int32Array> }

/** Everything drawn at temperature 1 from all tokens. */
export function plainSampling(length: number): WritableSampling {
  return {
    temperatures: new Float32Array(length).fill(1),
    kept: new Map(),
    isOldComputed: new Uint8Array(length),
  }
}

/** Copies tokens [from, to) of a sequence into a row, from `at` on. */
export function copySampling(
  into: WritableSampling,
  { temperatures, kept, isOldComputed }: RowSampling,
  { from, to, at }: { readonly from: number; readonly to: number; readonly at: number },
): void {
  into.temperatures.set(temperatures.subarray(from, to), at)
  into.isOldComputed.set(isOldComputed.subarray(from, to), at)
  for (const [t, ids] of kept) if (t >= from && t < to) into.kept.set(at + t - from, ids)
}
