/**
 * The plugins of this package, one a folder; each is loaded when it is asked for something. Of two that add rows behind the same
 * one, the rows of the first come first.
 */

import { rlLibrary } from '#plugins/rl-library/plugin.js'
import type { Installed, SettingsOf } from '#service/plugin.js'
import { audit } from './audit/plugin.js'
import { azure } from './azure/plugin.js'
import { backup } from './backup/plugin.js'
import { batches } from './batches/plugin.js'
import { demo } from './demo/plugin.js'
import { devices } from './devices/plugin.js'
import { docs } from './docs/plugin.js'
import { engineNodes } from './engine-nodes/plugin.js'
import { environments } from './environments/plugin.js'
import { evals } from './evals/plugin.js'
import { modelExport } from './export/plugin.js'
import { fineTuning } from './fine-tuning/plugin.js'
import { gateway } from './gateway/plugin.js'
import { graders } from './graders/plugin.js'
import { init } from './init/plugin.js'
import { jobData } from './job-data/plugin.js'
import { keys } from './keys/plugin.js'
import { literature } from './literature/plugin.js'
import { loops } from './loops/plugin.js'
import { marks } from './marks/plugin.js'
import { mcp } from './mcp/plugin.js'
import { messages } from './messages/plugin.js'
import { metricsExport } from './metrics-export/plugin.js'
import { page } from './page/plugin.js'
import { postgres } from './postgres/plugin.js'
import { probes } from './probes/plugin.js'
import { ray } from './ray/plugin.js'
import { recording } from './recording/plugin.js'
import { remoteWorkers } from './remote-workers/plugin.js'
import { responses } from './responses/plugin.js'
import { rollout } from './rollout/plugin.js'
import { s3 } from './s3/plugin.js'
import { servers } from './servers/plugin.js'
import { teacher } from './teacher/plugin.js'
import { tinker } from './tinker/plugin.js'
import { torch } from './torch/plugin.js'
import { uploads } from './uploads/plugin.js'
import { vllmGenerate } from './vllm-generate/plugin.js'
import { wandb } from './wandb/plugin.js'
import { webhooks } from './webhooks/plugin.js'

const plugins = [
  responses,
  vllmGenerate,
  messages,
  docs,
  rlLibrary,
  rollout,
  jobData,
  recording,
  gateway,
  fineTuning,
  azure,
  graders,
  uploads,
  loops,
  batches,
  evals,
  wandb,
  tinker,
  literature,
  marks,
  probes,
  keys,
  audit,
  backup,
  webhooks,
  engineNodes,
  remoteWorkers,
  mcp,
  demo,
  init,
  modelExport,
  teacher,
  environments,
  s3,
  postgres,
  servers,
  ray,
  devices,
  torch,
  metricsExport,
  page,
] as const

export const INSTALLED: Installed = { plugins, bodyThread: 'plugins/body-thread.js' }

/** Their settings as options of the library. */
export type PluginOptions = SettingsOf<(typeof plugins)[number]>
