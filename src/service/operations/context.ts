/**
 * What every service is built from. Made once in `service/assembly/operations.ts`; each operation names the parts it works
 * with, as `Pick<ServiceContext, …>`.
 */

import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import type { BodyStore } from '#service/bodies/body-store.js'
import type { EnginePool } from '#service/processes/engine-pool.js'
import type { Planner } from '#service/processes/planner.js'
import type { RemoteEnginesSeat } from '#service/processes/remote-engines.js'
import type { SchemaChecker } from '#service/processes/schema-checker.js'
import type { Dispatcher } from '#service/queue/dispatcher.js'
import type { SessionRunner } from '#service/queue/sessions/session-runner.js'
import type { JobSignals } from '#service/queue/signals.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import type { Tenant } from './access/principal.js'
import type { UsageService } from './access/usage.js'
import type { ActivityFeed } from './activity/feed.js'
import type { NameService } from './address-rules.js'
import type { BaseModelFilesBook } from './base-models/base-model-files.js'
import type { ModelFactsBook } from './base-models/model-facts.js'
import type { ToolFormatRule } from './base-models/tool-formats.js'
import type { Exporter } from './models/exporter.js'
import type { RemoteData } from './training/remote-data.js'

export type { Principal, Tenant } from './access/principal.js'

/** A base model this server can serve and train. */
export interface BaseModelEntry {
  readonly name: string
  /** Hugging Face directory or GGUF file. */
  readonly sourcePath: string
}

/** What this server lets a chat request do. */
export interface ChatRules {
  /** `priority` other than 0. */
  readonly allowsPriority: boolean
  /** `chat_template`. */
  readonly allowsTemplate: boolean
}

/** All parts there are; an operation takes those it names. */
export interface ServiceContext {
  readonly db: DatabaseHandle
  readonly blobs: BlobStore
  /** Reads JSON that clients stored, as their requests are read. */
  readonly bodies: Pick<BodyStore, 'limits' | 'parseFile'>
  readonly ids: IdSource
  readonly clock: Clock
  readonly logger: Logger
  /** Names of hosts that somebody else named. */
  readonly lookUp: NameService
  readonly signals: JobSignals
  /** What happens, for whoever follows it. */
  readonly activity: Pick<ActivityFeed, 'publish'>
  readonly dispatcher: Dispatcher
  readonly sessions: SessionRunner
  readonly engines: EnginePool
  /** Other machines that compute answers. */
  readonly remoteEngines: RemoteEnginesSeat
  readonly exporter: Exporter
  readonly planner: Planner
  readonly schemaChecker: SchemaChecker
  /** In the order given, then in the order added; the first one serves requests that name no model. Changes while the server runs. */
  readonly baseModels: readonly BaseModelEntry[]
  /** What is known of their files. */
  readonly modelFacts: ModelFactsBook
  /** The files themselves, for workers on other machines. */
  readonly baseModelFiles: BaseModelFilesBook
  /** Where prepared base weights are kept. */
  readonly preparedDir: string
  /** `file:` training data must lie below this folder; null refuses all. */
  readonly trainingDataRoot: string | null
  /** `https:` training data. */
  readonly remoteData: RemoteData
  /** The rows in an artifact that no file was registered as: the digest of the blob; null: there is none. */
  readonly artifactRows: (tenant: Tenant, artifact: string) => Promise<string | null>
  readonly leaseMs: number
  /** Ceiling for prompt and answer, tokens; null for each model's own. */
  readonly maxContextLength: number | null
  /** Jobs that train side by side. */
  readonly trainWorkers: number
  /** Why this machine computes on no accelerator where one might have been taken. */
  readonly deviceNotes: readonly string[]
  /** Jobs of one entity that may wait or run. */
  readonly maxQueuedJobs: number
  /** Which checkpoints of a model stay that has no rule of its own (`contract/jobs/keep-rule.ts`). */
  readonly keepRule: string
  /** Newest checkpoints of a model that keep the state of their optimizer. */
  readonly keepOptimizers: number
  /** Least time between two resume points of a job. */
  readonly resumeIntervalMs: number
  /** How long what a job trained on is kept past its end; 0: not at all. */
  readonly keepTrainingDataMs: number
  /** Largest trajectory group that is taken. */
  readonly maxGroupBytes: number
  /** Shows that training workers can run. @returns how, as a clause */
  probeWorker(): Promise<string>
  readonly chatRules: ChatRules
  /** Forms of tool calls that were set by hand. */
  readonly toolFormatOf: ToolFormatRule
  readonly usage: UsageService
  /** Asks for a sweep of blobs that nothing names any more. */
  requestSweep(): void
}
