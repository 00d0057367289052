/** Plays episodes of a source as a run does. */

import { systemClock } from '#base/util/clock.js'
import { createEpisodes, type EpisodeSetup } from '#plugins/environments/episode.js'
import type { AskedModel, EnvironmentSource } from '#plugins/environments/source.js'

export async function episodesOf(
  source: EnvironmentSource,
  model: AskedModel,
  options: Partial<Pick<EpisodeSetup, 'judge' | 'rewardRange' | 'episodeTimeoutMs' | 'signal'>> = {},
) {
  const warnings: string[] = []
  const description = await source.describe()
  const episodes = createEpisodes({
    ...{ source, description, model, seed: 1, run: 'run', judge: null, clock: systemClock },
    ...{
      episodeTimeoutMs: 60_000,
      signal: new AbortController().signal,
      rewardRange: description.rewardRange,
      ...options,
    },
    onWarning: (warning) => warnings.push(warning),
  })
  return { episodes, warnings, description }
}
