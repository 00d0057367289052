/**
 * A runtime that tells when it has loaded or run something: the training worker's sign of life in long gradient steps.
 */
import type { Runtime } from '#numerics/runtime/runtime.js'

/** `runtime`, calling `note` after each session loaded and each run done. */
export function countRuns(runtime: Runtime, note: () => void): Runtime {
  return {
    ...runtime,
    loadSession: async (path, options) => {
      const session = await runtime.loadSession(path, options)
      note()
      return {
        ...session,
        run: async (feeds, fetches) => {
          const outputs = await session.run(feeds, fetches)
          note()
          return outputs
        },
      }
    },
  }
}
