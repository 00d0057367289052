/**
 * What is known of the base models' files: read once by the inspector, remembered while the server runs. Asked by whatever depends on
 * a model's size.
 */
import type { ModelFacts, ModelInspector } from '#service/processes/model-inspector.js'

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
  /** Facts that were found elsewhere. */
  remember(name: string, facts: ModelFacts): void
  forget(name: string): void
}

/** @param served changes while the server runs */
export function createModelFactsBook(
  inspector: Pick<ModelInspector, 'inspect'>,
  served: readonly Located[],
): ModelFactsBook {
  const known = new Map<string, Promise<ModelFacts>>()

  async function factsOf({ name, sourcePath }: Located): Promise<ModelFacts> {
    const found = known.get(name) ?? inspector.inspect(sourcePath)
    known.set(name, found)
    // what could not be read may be mended
    found.catch(() => known.get(name) === found && known.delete(name))
    return found
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
    remember: (name, facts) => void known.set(name, Promise.resolve(facts)),
    forget: (name) => void known.delete(name),
  }
}
