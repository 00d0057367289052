/**
 * What is known of the base models' files: read once by the inspector, remembered while the server runs. Asked by whatever depends on
 * a model's size.
 */
import type { LostToken, ModelFacts, ModelInspector } from '#service/processes/model-inspector.js'

/** A base model and where it lies. */
interface Located {
  readonly name: string
  readonly sourcePath: string
}

export interface ModelFactsBook {
  /** @throws {WeightsError} what makes the model unusable */
  factsOf(model: Located): Promise<ModelFacts>
  /** Parameters of a model that is served; null where they cannot be told. */
  parametersOf(name: string): Promise<number | null>
  /** Tokens that it cannot tell from others; none where that cannot be told. */
  lostTokensOf(model: Located): Promise<LostToken[]>
  /**
   * Tokens that a prompt and its answer may have in a model that is served, before it is loaded. Null where its files were not read yet: they
   * are, for whoever asks again, without keeping anybody waiting.
   */
  contextLengthOf(name: string): number | null
  /** Facts that were found elsewhere. */
  remember(name: string, facts: ModelFacts): void
  forget(name: string): void
}

/**
 * @param served changes while the server runs
 * @param maxContextLength ceiling for all models; null: their own
 */
export function createModelFactsBook(
  inspector: Pick<ModelInspector, 'inspect'>,
  served: readonly Located[],
  maxContextLength: number | null = null,
): ModelFactsBook {
  const known = new Map<string, Promise<ModelFacts>>()
  /** Of `known`, what was found. */
  const found = new Map<string, ModelFacts>()

  /** Models that were read for `contextLengthOf`: once, for a list is asked for often. */
  const asked = new Set<string>()

  async function factsOf({ name, sourcePath }: Located): Promise<ModelFacts> {
    const reading = known.get(name) ?? inspector.inspect(sourcePath)
    known.set(name, reading)
    reading.then(
      (facts) => known.get(name) === reading && found.set(name, facts),
      // what could not be read may be mended
      () => known.get(name) === reading && known.delete(name),
    )
    return reading
  }

  return {
    factsOf,
    async parametersOf(name) {
      const model = served.find((entry) => entry.name === name)
      if (model === undefined) return null
      return await factsOf(model).then(
        ({ parameters }) => parameters,
        () => null,
      )
    },
    lostTokensOf: async (model) =>
      await factsOf(model).then(
        ({ lostTokens }) => [...(lostTokens ?? [])],
        () => [],
      ),
    contextLengthOf(name) {
      const facts = found.get(name)
      if (facts !== undefined) return Math.min(facts.contextLength, maxContextLength ?? facts.contextLength)
      const model = served.find((entry) => entry.name === name)
      if (model !== undefined && !asked.has(name)) {
        asked.add(name)
        void factsOf(model).catch(() => undefined)
      }
      return null
    },
    remember(name, facts) {
      known.set(name, Promise.resolve(facts))
      found.set(name, facts)
    },
    forget(name) {
      known.delete(name)
      found.delete(name)
      asked.delete(name)
    },
  }
}
