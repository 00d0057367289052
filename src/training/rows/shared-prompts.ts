/**
 * Which sequences of a trajectory group store their common prompt once.
 *
 * The shared part ends before the first trained token of any of its sequences, minus one: the last shared token stays private,
 * because it predicts the first completion token. ART shares one prompt per group; here a group with several prompts is cut
 * into the clusters that save the most tokens.
 */
import { minOf } from '#base/util/lists.js'
import type { TrainingSequence } from './tokenize.js'

/** Most sequences that share one stored prompt: keeps the search linear in absurdly large groups. */
const MAX_CLUSTER_SIZE = 1024

/** Sequences whose first `prefixLength` tokens are equal and untrained. */
export interface PromptCluster {
  /** Indices into the list that was clustered. */
  readonly members: readonly number[]
  /** Shared tokens; 0 for a cluster of one. */
  readonly prefixLength: number
}

/**
 * Partitions the sequences of one group into clusters with the largest saving of stored tokens.
 *
 * @returns every index exactly once; the order depends on the tokens only
 */
export function clusterByPrompt(sequences: readonly TrainingSequence[]): PromptCluster[] {
  const prompts = sequences.map((sequence, index) => ({ index, ids: promptOf(sequence) }))
  prompts.sort((a, b) => compareIds(a.ids, b.ids) || a.index - b.index)
  const common = prompts.map((prompt, i) => commonLength(prompt.ids, prompts[i + 1]?.ids ?? new Int32Array(0)))
  const starts = bestCuts(
    prompts.map((prompt) => prompt.ids.length),
    common,
  )
  return starts.map((start, c) => {
    const end = starts[c + 1] ?? prompts.length
    const shared = sharedLength(minOf(common.slice(start, end - 1), prompts[start]?.ids.length ?? 0))
    return {
      members: prompts.slice(start, end).map((prompt) => prompt.index),
      prefixLength: end - start > 1 ? shared : 0,
    }
  })
}

/** The tokens before the first trained one. */
function promptOf(sequence: TrainingSequence): Int32Array {
  const first = sequence.lossMask.indexOf(1)
  return first === -1 ? sequence.tokenIds : sequence.tokenIds.subarray(0, first)
}

function sharedLength(commonTokens: number): number {
  return Math.max(0, commonTokens - 1)
}

/**
 * Starts of the ranges of sorted prompts that save the most, by dynamic programming over the last range.
 *
 * @param common common[i] tokens are shared by neighbours i and i + 1; a range shares the minimum inside it
 */
function bestCuts(lengths: readonly number[], common: readonly number[]): number[] {
  const saved = [0]
  const cameFrom: number[] = []
  for (let end = 1; end <= lengths.length; end += 1) {
    let best = -1
    let bestStart = end - 1
    let shared = lengths[end - 1] ?? 0
    for (let start = end - 1; start >= Math.max(0, end - MAX_CLUSTER_SIZE); start -= 1) {
      if (start < end - 1) shared = Math.min(shared, common[start] ?? 0)
      const total = (saved[start] ?? 0) + (end - start - 1) * sharedLength(shared)
      if (total > best) {
        best = total
        bestStart = start
      }
    }
    saved.push(best)
    cameFrom.push(bestStart)
  }
  const starts: number[] = []
  for (let end = lengths.length; end > 0; end = starts.at(-1) ?? 0) starts.push(cameFrom[end - 1] ?? 0)
  return starts.reverse()
}

function compareIds(a: Int32Array, b: Int32Array): number {
  const shared = commonLength(a, b)
  if (shared === a.length || shared === b.length) return a.length - b.length
  return (a[shared] ?? 0) - (b[shared] ?? 0)
}

function commonLength(a: Int32Array, b: Int32Array): number {
  const limit = Math.min(a.length, b.length)
  for (let t = 0; t < limit; t += 1) {
    if (a[t] !== b[t]) return t
  }
  return limit
}
