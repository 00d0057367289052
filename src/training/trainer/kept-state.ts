/**
 * Copies the adapter and optimizer state between two gradient steps, and restores such a copy.
 */
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { AdamWState } from '#numerics/optim/adamw.js'
import type { KeptState } from './progress.js'
import { adapterParameters } from './trainer.js'

/** What a job changes. */
export interface TrainedState {
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState
}

/** Copies the state. Memory: three times the adapter's parameters. */
export function copyState({ adapter, optimizer }: TrainedState, at: Pick<KeptState, 'step' | 'loss'>): KeptState {
  const tensors = new Map([...adapterParameters(adapter)].map(([name, values]) => [name, values.slice()]))
  return { ...at, tensors, optimizer: copyOptimizer(optimizer) }
}

/** Puts a copy in place of the state. */
export function restoreState({ adapter, optimizer }: TrainedState, kept: KeptState): void {
  for (const [name, values] of adapterParameters(adapter)) values.set(kept.tensors.get(name) ?? [])
  const { stepCount, moments } = copyOptimizer(kept.optimizer)
  optimizer.stepCount = stepCount
  optimizer.moments.clear()
  for (const [name, pair] of moments) optimizer.moments.set(name, pair)
}

function copyOptimizer({ stepCount, moments }: AdamWState): AdamWState {
  return {
    stepCount,
    moments: new Map(
      [...moments].map(([name, { first, second }]) => [name, { first: first.slice(), second: second.slice() }]),
    ),
  }
}
