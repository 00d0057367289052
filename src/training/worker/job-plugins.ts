/**
 * What a job's options of plugins do: loaded where a job has set some. Knows no plugin; which there are says who started this
 * process.
 */
import { pathToFileURL } from 'node:url'
import { readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { bundlePath } from '#base/processes/entry.js'
import { isJsonObject } from '#base/util/json.js'
import { defaultOf } from '#contract/jobs/option.js'
import { type JobOptionsModule, optionOf, PLUGINS_VARIABLE } from '#contract/jobs/plugin-options.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import type { RewardShaper } from '#training/kinds/start.js'

/** @throws {AppError} `plugin_missing` for a plugin that is not loaded here; what is wrong with its module */
export async function loadShapers({ plugins, config }: WorkerJob): Promise<readonly RewardShaper[]> {
  if (plugins.length === 0) return []
  const entry = pathToFileURL(bundlePath('plugins/job-options.js')).href
  const { loadJobOptions } = (await import(entry)) as JobOptionsModule
  const files = JSON.parse(readEnvironment()[PLUGINS_VARIABLE] ?? '[]') as readonly string[]
  const loaded = await loadJobOptions(files)
  return await Promise.all(
    plugins.map(async (plugin) => {
      const { rows, rewards } = loaded.get(plugin)?.rl ?? missing(plugin)
      const given = config[optionOf(plugin)]
      const otherwise = Object.entries(rows).map(([name, row]) => [name, defaultOf(row)])
      const options = { ...Object.fromEntries(otherwise), ...(isJsonObject(given) ? given : {}) }
      const shaping = await rewards()
      if (typeof shaping.shape === 'function') return { plugin, options, shaping }
      throw new AppError(
        'invalid_request',
        'plugin_invalid',
        `plugin "${plugin}": what jobOptions.rl.rewards() loads has no function "shape"`,
      )
    }),
  )
}

function missing(plugin: string): never {
  throw new AppError(
    'invalid_request',
    'plugin_missing',
    `the job has options of the plugin "${plugin}", which is not loaded where it trains`,
    {
      hint: 'name its file in TRAINYARD_PLUGINS, or in "plugins" of the configuration file, where the worker is started',
    },
  )
}
