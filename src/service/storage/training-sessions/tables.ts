/**
 * Tables of training sessions and of the sessions of their clients, as Kysely sees them.
 */
import type { Generated } from 'kysely'

/** What a client opens first: models and samplers belong to one. */
export interface ClientSessionsTable {
  id: string
  entity: string
  /** Project of the key that opened it, when that key is bound to one. */
  project: string | null
  key_id: string
  /** JSON array. */
  tags: string
  /** JSON object. */
  user_metadata: string
  sdk_version: string
  display_name: string | null
  created_at_ms: Generated<number>
  /** The last heartbeat. */
  seen_at_ms: number
  ended_at_ms: number | null
}

/** An adapter that is trained request by request. */
export interface TrainingSessionsTable {
  /** `{client session}:train:{number}`. */
  id: string
  entity: string
  /** Of the model that its checkpoints go to. */
  project: string
  client_session_id: string
  base_model: string
  rank: number
  alpha: number
  /** JSON: a number or a text. */
  seed: string
  trains_mlp: number
  trains_attention: number
  /** JSON object. */
  user_metadata: string
  /** Why it cannot go on; null while it can. */
  error: string | null
  /** Workers that held it so far; also the fencing token. */
  attempt: Generated<number>
  /** The server whose worker has it; null: nobody's. */
  server_id: string | null
  /** The request that is carried out next; those before it are done. */
  next_seq: Generated<number>
  /** The last request whose effect is in the stored state. */
  state_seq: Generated<number>
  /** Updates made. */
  step_count: Generated<number>
  /** The model its checkpoints go to; null: it has none yet. */
  model_id: string | null
  created_at_ms: Generated<number>
  used_at_ms: number
}

/** A request of a training session, in the order of its client. */
export interface SessionRequestsTable {
  session_id: string
  seq: number
  kind: string
  /** JSON object: what it asks for, but for rows. */
  detail: string
  /**
   * Rows as the client sent them; null once nothing will ask for them again. Not a blob: a few megabytes at most, and gone with the
   * next stored state.
   */
  body: Uint8Array | null
  /** `waiting`, `done` or `failed`. */
  status: string
  /** JSON object; null without, and where the result is bytes. */
  result: string | null
  output: Uint8Array | null
  error: string | null
  is_user_error: Generated<number>
  /** Workers that ended while they carried it out. */
  losses: Generated<number>
  created_at_ms: Generated<number>
  ended_at_ms: number | null
}

/** The stored state of a session. */
export interface SessionFilesTable {
  session_id: string
  name: string
  sha256: string
  size_bytes: number
}

/** What a client saved of a session. */
export interface SessionWeightsTable {
  id: string
  entity: string
  session_id: string
  /** `weights`: with the optimizer's moments; `sampler_weights`: the adapter. */
  kind: string
  /** Null for weights that only a sampler names. */
  name: string | null
  /** Step of the checkpoint it became; null: none. */
  step: number | null
  /** JSON object. */
  user_metadata: string
  created_at_ms: Generated<number>
  expires_at_ms: number | null
}

export interface SessionWeightFilesTable {
  weights_id: string
  name: string
  sha256: string
  size_bytes: number
}

/** What a client samples from. */
export interface SamplersTable {
  id: string
  entity: string
  client_session_id: string
  base_model: string
  /** Null: the base model. */
  weights_id: string | null
  /** As the client named the weights. */
  model_path: string | null
  created_at_ms: Generated<number>
}

export interface TrainingSessionTables {
  client_sessions: ClientSessionsTable
  training_sessions: TrainingSessionsTable
  session_requests: SessionRequestsTable
  session_files: SessionFilesTable
  session_weights: SessionWeightsTable
  session_weight_files: SessionWeightFilesTable
  samplers: SamplersTable
}
