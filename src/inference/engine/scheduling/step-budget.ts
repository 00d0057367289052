/**
 * How much time prompts may take between two tokens of the running choices: a trade-off between a short wait for the first token
 * of new requests and a steady pace of the answers that run.
 */

/** How long one prompt may hold up running choices, and how long a step may be when there are none. */
const SHARING_MS = 60
export const ALONE_MS = 300
/** The gap between two tokens that everybody accepts; how many times as long as undisturbed it may be otherwise, and how long. */
const FAIR_GAP_MS = 150
const FAIR_GAP = 5
const MOST_GAP_MS = 300
/** For each of several prompts and for the gap where the choices that run came together with them. */
const SHARING_TOGETHER_MS = 120
const MOST_TOGETHER_MS = 1000
/** A step of so many tokens says what a token takes. */
const TELLING_TOKENS = 64

/**
 * Milliseconds for prompts between two tokens of the running choices.
 *
 * One prompt gets little, so that its neighbours hardly notice. When many come at once, each of them would wait for all tokens that
 * those before it generate meanwhile, so they get more together, up to what keeps the gap fair. Choices that were let in together with
 * several prompts have no claim to go before them.
 *
 * @param prompts waiting to be computed
 * @param roundMs what a token of every running choice takes
 * @param isTogether whether no running choice was let in long before the prompts
 */
export function sharingMs({
  prompts,
  roundMs,
  isTogether,
}: {
  readonly prompts: number
  readonly roundMs: number
  readonly isTogether: boolean
}): number {
  if (isTogether && prompts > 1) return Math.min(SHARING_TOGETHER_MS * prompts, MOST_TOGETHER_MS)
  const gap = Math.min(MOST_GAP_MS, Math.max(FAIR_GAP_MS, FAIR_GAP * roundMs))
  const most = Math.max(SHARING_MS, gap - roundMs)
  return Math.min(SHARING_MS * Math.max(1, prompts), most)
}

/**
 * Milliseconds a prompt's next token takes, after a step of it.
 *
 * @param knownMs what was expected of its tokens
 * @param trust how much of the difference is believed, 0 to 1: a single step may have been held up
 */
export function measuredMs(
  knownMs: number,
  { tokens, ms, trust }: { readonly tokens: number; readonly ms: number; readonly trust: number },
): number {
  // a few tokens say little: their step is mostly what every step costs
  const weight = trust * Math.min(1, tokens / TELLING_TOKENS)
  return knownMs + weight * (ms / tokens - knownMs)
}
