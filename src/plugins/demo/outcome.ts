/**
 * How a demo ends: the held-out curve, samples before and after, and the closing event.
 */
import type { DemoFinished, DemoSample } from './events.js'
import { type DemoOptions, type Measurement, secondsSince } from './session.js'

/** Held-out reward that ends a demo early: there is little left to show. */
export const GOAL = 0.9
/** Held-out prompts that are shown before and after. */
const SHOWN_PROMPTS = 6

/** Gain of held-out reward that a person can see in the answers. */
const VISIBLE_GAIN = 0.3

/**
 * Whether the next turn is not begun any more. The budget is for a machine with time on its hands: where everything takes longer,
 * a demo goes on until it has something to show.
 *
 * @param endMs when the turn would end, milliseconds after the start
 */
export function isOutOfTime(
  options: Pick<DemoOptions, 'budgetMs' | 'longestMs'>,
  turn: { readonly endMs: number; readonly before: Gained; readonly latest: Gained },
): boolean {
  const gain = turn.latest.event.held_out_reward - turn.before.event.held_out_reward
  return turn.endMs > (gain < VISIBLE_GAIN ? Math.max(options.budgetMs, options.longestMs) : options.budgetMs)
}

interface Gained {
  readonly event: Pick<Measurement['event'], 'held_out_reward'>
}

/** A point of the held-out curve. */
export function toPoint({ event }: Measurement): { readonly step: number; readonly reward: number } {
  return { step: event.step, reward: event.held_out_reward }
}

/** The closing event. */
export function finish(
  options: DemoOptions,
  end: Pick<DemoFinished, 'kind' | 'reason' | 'tokens'> & {
    readonly before: Measurement
    readonly after: Measurement
    readonly heldOut: DemoFinished['held_out']
  },
): DemoFinished {
  const [before, after] = [end.before.event.held_out_reward, end.after.event.held_out_reward]
  return {
    object: 'demo.finished',
    kind: end.kind,
    task: options.task.name,
    model_id: options.model.id,
    model: options.model.name,
    reason: end.reason,
    step: end.after.event.step,
    before,
    after,
    gain: after - before,
    tokens: end.tokens,
    seconds: secondsSince(options),
    held_out: end.heldOut,
    samples: compareSamples(end.before, end.after),
  }
}

/**
 * Held-out prompts with the first answer of each measurement, evenly spread over those whose answer changed, and over the others where
 * those are too few: nothing is picked by its reward.
 */
function compareSamples(before: Measurement, after: Measurement): readonly DemoSample[] {
  const samples = before.answered.map((old, at): DemoSample => {
    const [was, is] = [old.answers[0], after.answered[at]?.answers[0]]
    return {
      prompt: old.item.prompt,
      before: was?.text ?? '',
      after: is?.text ?? '',
      reward_before: was?.reward ?? 0,
      reward_after: is?.reward ?? 0,
    }
  })
  const changed = samples.filter((sample) => sample.before !== sample.after)
  const shown = spread(changed, SHOWN_PROMPTS)
  const unchanged = samples.filter((sample) => sample.before === sample.after)
  return [...shown, ...spread(unchanged, SHOWN_PROMPTS - shown.length)]
}

/** At most `count`, evenly spread. */
function spread<T>(items: readonly T[], count: number): readonly T[] {
  const most = Math.min(count, items.length)
  return Array.from({ length: most }, (_, i) => items[Math.floor(((i + 0.5) * items.length) / most)] as T)
}
