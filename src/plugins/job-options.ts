/**
 * Entry of what a training worker or a plan loads where a job has set options of a plugin: what plugins do with them.
 */
import type { PluginJobOptions } from '#contract/jobs/plugin-options.js'
import { installed, loadOthers } from './others.js'

/** See `JobOptionsModule` of the contract. */
export async function loadJobOptions(files: readonly string[]): Promise<ReadonlyMap<string, PluginJobOptions>> {
  await loadOthers(files)
  return new Map(
    installed().plugins.flatMap(({ name, jobOptions }) => (jobOptions === undefined ? [] : [[name, jobOptions]])),
  )
}
