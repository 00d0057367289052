/**
 * How an engine node and the server know each other. A node serves one base model on a machine of its own: it says so, with an API key of
 * scope `worker`, again and again; a node that is not heard of within its lease gets nothing more.
 *
 *     POST /internal/engine/nodes                             EngineNodeReport → EngineNodeLease
 *     GET  /internal/engine/base-models/{name}                → BaseModelFiles
 *     GET  /internal/engine/base-models/{name}/files/{file}   → bytes; header x-content-sha256
 *     GET  /internal/engine/adapters/{digest}                 → EngineAdapterFiles
 *     GET  /internal/engine/adapters/{digest}/{file}          → bytes; header x-content-sha256
 *
 * The other way the server's engine host sends tokens to the node and reads tokens (`token-wire.ts`), with the token that the node made
 * for it at its start. No message names a path of any machine.
 */
import { z } from 'zod'
import { NODE_ENGINES } from '../settings/service.js'
import { atMost } from '../wire/maxima.js'

export type { NodeEngineName } from '../settings/service.js'

const digest = z.string().regex(/^[0-9a-f]{64}$/)

export const engineNodeReportSchema = z.object({
  /** Made anew at every start. */
  id: z.string().regex(/^[\w-]{8,64}$/),
  /** What people call it. */
  name: z.string().min(1).max(128),
  /** Where the server reaches it. */
  url: z.url({ protocol: /^https?$/ }).max(2000),
  /** What the server proves itself with there. */
  token: z.string().regex(/^[\w-]{32,128}$/),
  engine: z.enum(NODE_ENGINES),
  /** Of the programs that take part, by name. */
  versions: atMost(z.record(z.string().max(64), z.string().max(64)), 64),
  /** What it computes on: `cpu`, or the name of a card. */
  device: z.string().min(1).max(128),
  base_model: z.object({ name: z.string().min(1).max(500), digest }),
  /** Ceiling for prompt and answer, tokens. */
  context_length: z.number().int().positive(),
  /** Answers it computes at once. */
  slots: z.number().int().positive(),
  /** Requests in progress. */
  running: z.number().int().nonnegative(),
  /** Requests that wait for a place. */
  waiting: z.number().int().nonnegative(),
  /** Adapters that it holds, by digest. */
  adapters: z.array(digest).max(1000),
  /** It ends: what runs goes on, nothing new comes. */
  is_leaving: z.boolean().default(false),
})
export type EngineNodeReport = z.infer<typeof engineNodeReportSchema>

export const engineNodeLeaseSchema = z.object({
  /** When to report again, at the latest. */
  report_seconds: z.number().positive(),
  /** Without a report for so long it gets nothing more. */
  lease_seconds: z.number().positive(),
})
export type EngineNodeLease = z.infer<typeof engineNodeLeaseSchema>

/** Files of an adapter that a node was asked to serve. */
export const engineAdapterFilesSchema = z.object({
  digest,
  /** How errors name it. */
  checkpoint: z.string().max(1000),
  files: z
    .array(z.object({ name: z.string().regex(/^[\w-][\w.-]{0,100}$/), sha256: digest }))
    .min(1)
    .max(100),
})
export type EngineAdapterFiles = z.infer<typeof engineAdapterFilesSchema>

/** What a node says of itself to who asks with its token. */
export const engineNodeIdentitySchema = z.object({ id: z.string().max(64) })
