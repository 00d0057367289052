/**
 * A whole demo as a stream of events: who learns what, then one kind of training to its end.
 */
import type { DemoEvent, DemoKind } from './events.js'
import { trainByRl } from './rl.js'
import type { DemoOptions } from './session.js'
import { trainBySft } from './sft.js'

const DEMOS: Readonly<Record<DemoKind, (options: DemoOptions) => AsyncGenerator<DemoEvent>>> = {
  rl: trainByRl,
  sft: trainBySft,
}

/**
 * Runs it; the first event is `demo.started`, the last one `demo.finished`.
 *
 * @throws the signal's reason when aborted, after the running job was cancelled; any error of the API
 */
export async function* runDemo(options: DemoOptions & { readonly kind: DemoKind }): AsyncGenerator<DemoEvent> {
  const { kind, model, task } = options
  yield {
    object: 'demo.started',
    kind,
    task: task.name,
    teaches: task.teaches,
    rule: task.rule,
    model_id: model.id,
    model: model.name,
    base_model: model.base_model,
    seed: options.seed,
    training_prompts: task.training.length,
    held_out_prompts: task.heldOut.length,
  }
  yield* DEMOS[kind](options)
}
