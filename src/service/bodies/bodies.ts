/**
 * Every JSON body the service reads: its schema and how much of it may be sent. One row per kind of request.
 *
 * A name is all that crosses to the thread that reads the body (`thread-main.ts`). Counts are checked while bytes arrive,
 * so that no schema ever meets a million elements.
 */
import type { z } from 'zod'
import {
  workerCompletionSchema,
  workerEventsSchema,
  workerFailureSchema,
  workerHeartbeatSchema,
} from '#contract/processes/worker.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import { createKeyRequestSchema } from '#contract/wire/access/keys.js'
import { CHAT_INT64_FIELDS, chatRequestSchema } from '#contract/wire/chat-completions.js'
import { deleteCheckpointsRequestSchema } from '#contract/wire/checkpoints.js'
import { createFineTuningJobRequestSchema } from '#contract/wire/compatible/fine-tuning.js'
import {
  artifactManifestSchema,
  fileStreamRequestSchema,
  graphqlRequestSchema,
} from '#contract/wire/compatible/wandb.js'
import { completionRequestSchema } from '#contract/wire/inference/completions.js'
import { countMessageTokensRequestSchema, messageRequestSchema } from '#contract/wire/inference/messages.js'
import { responseRequestSchema } from '#contract/wire/inference/responses.js'
import {
  applyTemplateRequestSchema,
  detokenizeRequestSchema,
  tokenizeRequestSchema,
} from '#contract/wire/inference/tokens.js'
import { addBaseModelRequestSchema, createModelRequestSchema } from '#contract/wire/models.js'
import {
  createDpoJobRequestSchema,
  createRlJobRequestSchema,
  createSftJobRequestSchema,
} from '#contract/wire/training-jobs.js'
import { logTrajectoriesRequestSchema } from '#contract/wire/trajectories.js'
import { createWebhookRequestSchema } from '#contract/wire/webhooks/webhooks.js'
import { idleOptionsOf } from './idle-options.js'
import type { JsonReaderOptions } from './json-reader.js'
import { unreadBlockFieldsOf, unreadFieldsOf } from './unread-fields.js'

/** What may be sent and how fast. Settings of the server; the defaults are `DEFAULT_BODY_LIMITS`. */
export interface BodyLimits {
  /** Models, deletes, SFT jobs: small objects. Bytes. */
  readonly smallBytes: number
  /** A chat request, bytes. */
  readonly chatBytes: number
  /** A body of trajectory groups, bytes: they are read one by one, so this costs disk, not memory. */
  readonly trajectoriesBytes: number
  /** One trajectory group, bytes. */
  readonly groupBytes: number
  /** An uploaded file, bytes. */
  readonly uploadBytes: number
  /** All bodies that are not read to their end yet, together, bytes on disk; beyond it 503. */
  readonly unfinishedBytes: number
  /** A body that sends nothing for this long is given up, milliseconds. */
  readonly idleMs: number
  /** A body that is slower than this on average, after `idleMs`, is given up. */
  readonly minBytesPerSecond: number
}

export const DEFAULT_BODY_LIMITS: BodyLimits = {
  smallBytes: SERVICE_DEFAULTS.maxRequestBodyBytes,
  chatBytes: SERVICE_DEFAULTS.maxChatBodyBytes,
  trajectoriesBytes: SERVICE_DEFAULTS.maxTrajectoriesBytes,
  groupBytes: SERVICE_DEFAULTS.maxGroupBytes,
  uploadBytes: SERVICE_DEFAULTS.maxUploadBytes,
  unfinishedBytes: SERVICE_DEFAULTS.maxUnfinishedBytes,
  idleMs: 30_000,
  minBytesPerSecond: 8192,
}

/** A kind of request. */
export interface BodyKind {
  readonly schema: z.ZodType
  readonly size: 'smallBytes' | 'chatBytes' | 'trajectoriesBytes'
  readonly reader: Omit<JsonReaderOptions, 'elements' | 'maxElementBytes'>
  /** What a checked body says without effect although its schema knows it. */
  readonly idle?: (value: Readonly<Record<string, unknown>>) => readonly string[]
}

const SMALL = {
  size: 'smallBytes',
  reader: { maxContainers: 20_000, maxValues: 200_000, maxNestedValues: 50_000, maxKeys: 20_000 },
} as const
const CONVERSATION = {
  size: 'chatBytes',
  // a list of allowed ids may name every token of a large vocabulary; no context has as many messages
  reader: {
    maxContainers: 50_000,
    maxValues: 300_000,
    maxNestedValues: 60_000,
    maxKeys: 20_000,
    int64Fields: CHAT_INT64_FIELDS,
    keepsNumbers: true,
  },
} as const
/**
 * Most objects and arrays, and values, of one group: a million sampled tokens with their logprobs. Eleven million names kept the
 * thread that reads all large bodies for more than five minutes, collecting garbage near the end of its heap.
 */
const GROUPS = {
  size: 'trajectoriesBytes',
  reader: { maxContainers: 4_000_000, maxValues: 20_000_000, maxNames: 100_000, keepsNumbers: true },
} as const

/** What of a request for an answer has no effect, though a schema knows it. */
const idleFieldsOf = (value: Readonly<Record<string, unknown>>): readonly string[] => [
  ...unreadFieldsOf(value),
  ...idleOptionsOf(value),
]

export const BODIES = {
  createKey: { schema: createKeyRequestSchema, ...SMALL },
  createModel: { schema: createModelRequestSchema, ...SMALL },
  addBaseModel: { schema: addBaseModelRequestSchema, ...SMALL },
  deleteCheckpoints: { schema: deleteCheckpointsRequestSchema, ...SMALL },
  createDpoJob: { schema: createDpoJobRequestSchema, ...SMALL },
  createSftJob: { schema: createSftJobRequestSchema, ...SMALL },
  createWebhook: { schema: createWebhookRequestSchema, ...SMALL },
  createFineTuningJob: { schema: createFineTuningJobRequestSchema, ...SMALL },
  graphql: { schema: graphqlRequestSchema, ...SMALL },
  fileStream: {
    schema: fileStreamRequestSchema,
    size: 'chatBytes',
    reader: { maxContainers: 10_000, maxValues: 300_000 },
  },
  // an object a file, each with an entry of the map; clients that train send a handful of files
  artifactManifest: {
    schema: artifactManifestSchema,
    size: 'chatBytes',
    reader: { maxContainers: 25_000, maxValues: 200_000, maxKeys: 20_000 },
  },
  workerHeartbeat: { schema: workerHeartbeatSchema, ...SMALL },
  workerEvents: { schema: workerEventsSchema, ...SMALL },
  workerCompletion: { schema: workerCompletionSchema, ...SMALL },
  workerFailure: { schema: workerFailureSchema, ...SMALL },
  chat: { schema: chatRequestSchema, ...CONVERSATION, idle: idleFieldsOf },
  completion: {
    schema: completionRequestSchema,
    size: 'chatBytes',
    idle: idleFieldsOf,
    // evaluation harnesses send many prompts of token ids at once
    reader: {
      maxContainers: 50_000,
      maxValues: 2_000_000,
      maxNestedValues: 2_000_000,
      maxKeys: 20_000,
      int64Fields: CHAT_INT64_FIELDS,
      keepsNumbers: true,
    },
  },
  response: { schema: responseRequestSchema, ...CONVERSATION, idle: unreadFieldsOf },
  message: { schema: messageRequestSchema, ...CONVERSATION, idle: unreadBlockFieldsOf },
  countMessageTokens: { schema: countMessageTokensRequestSchema, ...CONVERSATION, idle: unreadBlockFieldsOf },
  tokenize: { schema: tokenizeRequestSchema, ...CONVERSATION, idle: unreadFieldsOf },
  applyTemplate: { schema: applyTemplateRequestSchema, ...CONVERSATION, idle: unreadFieldsOf },
  detokenize: {
    schema: detokenizeRequestSchema,
    size: 'smallBytes',
    reader: { maxContainers: 1000, maxValues: 2_000_000, maxKeys: 1000 },
  },
  createRlJob: { schema: createRlJobRequestSchema, ...GROUPS },
  logTrajectories: { schema: logTrajectoriesRequestSchema, ...GROUPS },
} as const satisfies Readonly<Record<string, BodyKind>>

export type BodyName = keyof typeof BODIES
/** Bodies whose `trajectory_groups` are streamed. */
export type GroupsBodyName = 'createRlJob' | 'logTrajectories'
export type BodyOf<N extends BodyName> = z.output<(typeof BODIES)[N]['schema']>
