/**
 * The gradient engines of a training session, each made when first needed. There is one for each form of the loss, for
 * attention in blocks or whole, and for activations recomputed or kept.
 */
import { availableMemoryBytes } from '#base/machine/memory.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { SummedLossForm } from '#numerics/nn/summed-loss.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { DENSE_ATTENTION_TOKENS } from '#training/rows/attention-blocks.js'
import type { GradientEngine, GradientEngines } from '#training/trainer/gradient-engine.js'
import { rowSettings } from '#training/trainer/job.js'
import { planMemory } from '#training/trainer/memory.js'
import type { RowBatch } from '#training/trainer/row-batch.js'

export interface SessionEngineOptions {
  readonly prepared: PreparedModel
  readonly runtime: Runtime
  readonly adapter: AdapterWeights
  readonly threads?: number
}

export interface SessionEngines {
  /** @throws {TrainingError} `out_of_memory` for rows that do not fit */
  train(batch: RowBatch, form: SummedLossForm): Promise<GradientEngine>
  score(batch: RowBatch): Promise<GradientEngine>
  release(): Promise<void>
}

/** Opens nothing yet. */
export function createSessionEngines(options: SessionEngineOptions): SessionEngines {
  const { prepared, adapter } = options
  const sources = new Map<boolean, Promise<GradientEngines>>()
  const opened = new Map<string, Promise<GradientEngine>>()

  function sourceOf({ length }: RowBatch): Promise<GradientEngines> {
    const isBlocked = length > DENSE_ATTENTION_TOKENS
    const source =
      sources.get(isBlocked) ??
      rowSettings(options, { precision: 'f32', longestRow: length }).then(({ engines }) => engines)
    sources.set(isBlocked, source)
    return source
  }

  /** One that failed is not kept. */
  function openOnce(key: string, open: () => Promise<GradientEngine>): Promise<GradientEngine> {
    const known = opened.get(key)
    if (known !== undefined) return known
    const engine = open()
    opened.set(key, engine)
    engine.catch(() => opened.delete(key))
    return engine
  }

  return {
    train: (batch, form) => {
      const rows = batch.positions.length / batch.length
      const needs = { loss: 'summed', largest: { rows, length: batch.length }, measured: null } as const
      const { isRecomputed } = planMemory(prepared.config, needs, availableMemoryBytes())
      const key = `train ${form} ${batch.length > DENSE_ATTENTION_TOKENS} ${isRecomputed}`
      return openOnce(key, async () => (await sourceOf(batch)).train({ kind: 'summed', form }, { isRecomputed }))
    },
    score: (batch) =>
      openOnce(`score ${batch.length > DENSE_ATTENTION_TOKENS}`, async () =>
        (await sourceOf(batch)).score(adapter.config),
      ),
    release: async () => {
      const engines = await Promise.allSettled(opened.values())
      opened.clear()
      for (const engine of engines) if (engine.status === 'fulfilled') await engine.value.release()
    },
  }
}
