/**
 * The gradient engines of a learner, each opened when first needed: one for each loss, for attention in blocks or whole, and for
 * activations recomputed or kept, and one for each form of adapter that is scored.
 */
import { availableMemoryBytes } from '#base/machine/memory.js'
import type { AdapterForm } from '#model/weights/adapter-config.js'
import type { GradientEngine, GradientEngines } from '../gradient-engine.js'
import { planMemory } from '../memory.js'
import type { RowBatch } from '../row-batch.js'
import type { LossKind } from '../train-graph.js'
import type { LearnerOptions } from './learner.js'

/** Where the engines of a base model come from. */
export interface EngineSource {
  /** Engines for rows up to a length suit all lengths of the same variant. */
  variantOf(longestRow: number): string
  open(rows: { readonly longestRow: number; readonly hasKeptSets: boolean }): Promise<GradientEngines>
}

interface EnginePool {
  /** @throws {TrainingError} `out_of_memory` for rows that do not fit */
  train(batch: Pick<RowBatch, 'length' | 'positions'>, loss: LossKind): Promise<GradientEngine>
  score(batch: Pick<RowBatch, 'length'>, form: AdapterForm): Promise<GradientEngine>
  /** Those opened later are new ones. */
  release(): Promise<void>
}

/** Opens nothing yet. */
export function createEnginePool({ prepared, rows }: LearnerOptions, source: EngineSource): EnginePool {
  const sources = new Map<string, Promise<GradientEngines>>()
  const opened = new Map<string, Promise<GradientEngine>>()
  const longestOf = ({ length }: Pick<RowBatch, 'length'>): number => rows?.longestRow ?? length

  /** One that failed is not kept. */
  function once<T>(known: Map<string, Promise<T>>, key: string, open: () => Promise<T>): Promise<T> {
    const found = known.get(key)
    if (found !== undefined) return found
    const opening = open()
    known.set(key, opening)
    opening.catch(() => known.delete(key))
    return opening
  }

  function engine(
    batch: Pick<RowBatch, 'length'>,
    key: string,
    open: (engines: GradientEngines) => Promise<GradientEngine>,
  ): Promise<GradientEngine> {
    const longestRow = longestOf(batch)
    const variant = source.variantOf(longestRow)
    return once(opened, `${key} ${variant}`, async () => {
      const given = { longestRow, hasKeptSets: rows?.hasKeptSets === true }
      return open(await once(sources, variant, () => source.open(given)))
    })
  }

  function isRecomputed({ length, positions }: Pick<RowBatch, 'length' | 'positions'>, { kind }: LossKind): boolean {
    if (rows !== null) return rows.isRecomputed
    const needs = { loss: kind, largest: { rows: positions.length / length, length }, measured: null }
    return planMemory(prepared.config, needs, availableMemoryBytes()).isRecomputed
  }

  return {
    train: async (batch, loss) => {
      const how = { isRecomputed: isRecomputed(batch, loss) }
      return engine(batch, `train ${JSON.stringify({ loss, how })}`, (engines) => engines.train(loss, how))
    },
    score: (batch, form) => engine(batch, `score ${JSON.stringify(form)}`, (engines) => engines.score(form)),
    release: async () => {
      const engines = await Promise.allSettled(opened.values())
      opened.clear()
      for (const each of engines) if (each.status === 'fulfilled') await each.value.release()
    },
  }
}
