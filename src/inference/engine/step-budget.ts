/**
 * How much of the engine's time prompts may take in one step: a trade of the next tokens of those who wait for an answer to begin
 * against the pace of the answers that run.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { roundedCapacity } from './cache/kv-shape.js'

/** How long one prompt may hold up running choices, and how long a step may be when there are none. */
const SHARING_MS = 60
export const ALONE_MS = 300
/** The gap between two tokens that everybody accepts, and how many times as long as undisturbed it may be otherwise. */
const FAIR_GAP_MS = 150
const FAIR_GAP = 5
/** Activations of a larger step leave the processor's own memory: 512 tokens of a 135M model take half as long again as 4 x 128. */
const ACTIVATION_BYTES = 2 ** 21
const MOST_TOKENS_ALONE = 512
const LEAST_TOKENS_ALONE = 128

/**
 * Milliseconds for prompts between two tokens of the running choices.
 *
 * One prompt gets little, so that its neighbours hardly notice. When many come at once, each of them would wait for all tokens that
 * those before it generate meanwhile, so they get more together, up to what keeps the gap fair.
 *
 * @param prompts waiting to be computed
 * @param roundMs what a token of every running choice takes
 */
export function sharingMs({ prompts, roundMs }: { readonly prompts: number; readonly roundMs: number }): number {
  const most = Math.max(SHARING_MS, FAIR_GAP_MS - roundMs, (FAIR_GAP - 1) * roundMs)
  return Math.min(SHARING_MS * Math.max(1, prompts), most)
}

/** Tokens of the largest step when no choice runs. */
export function mostTokensAlone({ mlpSize }: DecoderConfig): number {
  const tokens = ACTIVATION_BYTES / (2 * mlpSize * Float32Array.BYTES_PER_ELEMENT)
  return Math.min(MOST_TOKENS_ALONE, Math.max(LEAST_TOKENS_ALONE, roundedCapacity(tokens)))
}
