/**
 * What programs use of it, as `trainyard/rl`.
 */
export { askedModel, createEpisodes, type EpisodeSetup, type Episodes } from './episode.js'
export { type EnvironmentOptions, openEnvironment } from './open.js'
export type { AskedModel, EnvironmentDescription, EnvironmentSource, EnvironmentTask } from './source.js'
export { openTasks, type TaskFeed } from './tasks.js'
