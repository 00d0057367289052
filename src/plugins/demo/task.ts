/**
 * What a demo task is: prompts to learn from, prompts that are held out, and a reward that anybody can read.
 *
 * Knows no model and no service. A task is data and one pure function; `tasks.ts` lists them all.
 */

/** One prompt with what its reward needs. */
export interface DemoItem {
  readonly prompt: string
  /** An answer that earns 1: what fine-tuning learns from. */
  readonly reference: string
  /** What the reward compares with; what it means is the task's own. */
  readonly expected: readonly string[]
}

/** Something a small model can be taught in a minute. */
export interface DemoTask {
  readonly name: string
  /** Completes "teach the model to …". */
  readonly teaches: string
  /** The rule of the reward in one sentence. */
  readonly rule: string
  /** Longest answer, tokens. */
  readonly maxTokens: number
  readonly training: readonly DemoItem[]
  /** Never trained on; no prompt of `training` is among them. */
  readonly heldOut: readonly DemoItem[]
  /** The reward of an answer, 0 to 1; 1 only for an answer that is fully right. */
  readonly reward: (item: DemoItem, answer: string) => number
}

/** How many prompts a task measures itself on. */
export const HELD_OUT_COUNT = 24

/**
 * Splits items into training and held-out ones: `HELD_OUT_COUNT` spread evenly over the list are held out.
 *
 * @param items more than `HELD_OUT_COUNT`, in an order that mixes kinds
 */
export function splitItems(items: readonly DemoItem[]): Pick<DemoTask, 'training' | 'heldOut'> {
  const heldOutAt = new Set(
    Array.from({ length: HELD_OUT_COUNT }, (_, i) => Math.floor(((i + 0.5) * items.length) / HELD_OUT_COUNT)),
  )
  const heldOut = items.filter((_, i) => heldOutAt.has(i))
  const prompts = new Set(heldOut.map((item) => item.prompt))
  return { heldOut, training: items.filter((item) => !prompts.has(item.prompt)) }
}

/** The words of an answer: letters, digits and apostrophes, in lower case. */
export function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? []
}

/** `Swimming` of `swimming`. */
export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
