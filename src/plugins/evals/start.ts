/**
 * Who answers runs of evals, beside the service.
 */
import type { PluginStart } from '#service/plugin.js'
import { startAsking } from '../batches/start-asking.js'
import type { RunWaker } from './evals.js'
import { listOpenRuns } from './storage/evals.js'

/** Starts it for a service; it ends with the service. */
export function startEvals(core: PluginStart): RunWaker {
  const { context } = core
  return startAsking(core, {
    name: 'evals',
    hasOpen: async () => (await listOpenRuns(context.db, 1)).length > 0,
    load: async () => {
      const { createRunRunner } = await import('./run-runner.js')
      return (parts) => createRunRunner(context, parts)
    },
  })
}
