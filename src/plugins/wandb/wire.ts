/**
 * The part of W&B's API that its client needs here: GraphQL requests, the stream of a run's metrics, and what signed addresses
 * carry. Also a model's runs, as `GET /v1/preview/models/{model_id}/runs` shows them.
 */
import { z } from 'zod'
import { listSchema } from '#contract/wire/list.js'
import { atMost, byBody, label, MAX_LINES, text } from '#contract/wire/maxima.js'

/** `POST /graphql`. */
export const graphqlRequestSchema = z.object({
  query: z.string().max(200_000),
  variables: byBody(z.record(z.string(), z.json())).nullish(),
  operationName: label().nullish(),
})

/** Whatever the document asks for; a field that failed is told in `errors`. */
export const graphqlResponseSchema = z.object({
  data: z.json(),
  errors: z
    .array(z.object({ message: z.string(), path: z.array(z.string()), extensions: z.object({ code: z.string() }) }))
    .optional(),
})

/** `POST /files/{entity}/{project}/{run}/file_stream`: lines of the run's files from `offset` on. */
export const fileStreamRequestSchema = z.object({
  files: atMost(
    z.record(
      z.string(),
      z.object({ offset: z.number().int().min(0).default(0), content: z.array(text()).max(MAX_LINES) }),
    ),
    1000,
    1024,
  ).nullish(),
  complete: z.boolean().nullish(),
  exitcode: z.number().int().nullish(),
})
export type FileStreamRequest = z.infer<typeof fileStreamRequestSchema>

/** What a signed address gives access to. */
export const grantSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('put_manifest'), artifactId: z.string() }),
  z.object({ kind: z.literal('put_artifact_file'), artifactId: z.string(), name: z.string(), md5: z.string() }),
  z.object({ kind: z.literal('put_run_file'), runId: z.string(), name: z.string() }),
  z.object({ kind: z.literal('get_blob'), sha256: z.string(), sizeBytes: z.number() }),
  z.object({ kind: z.literal('get_checkpoint_manifest'), checkpointId: z.string() }),
])
export type Grant = z.infer<typeof grantSchema>

/** With whose key it was asked for; tickets of earlier versions do not say. */
export const ticketSchema = z.object({
  grant: grantSchema,
  entity: z.string().max(200).default('unknown'),
  expiresAtMs: z.number(),
})
export type Ticket = z.infer<typeof ticketSchema>

/** `wandb_manifest.json`: the files of an artifact by path. */
export const artifactManifestSchema = z.object({
  version: z.literal(1),
  storagePolicy: z.string(),
  storagePolicyConfig: z.record(z.string(), z.json()).optional(),
  contents: z.record(
    z.string().max(1024),
    z.object({
      /** Base64 MD5 of the file. */
      digest: z.string().max(256),
      size: z.number().int().min(0).optional(),
      /** Where a file lies that was not uploaded. */
      ref: z.string().optional(),
      birthArtifactID: z.string().optional(),
    }),
  ),
})
export type ArtifactManifest = z.infer<typeof artifactManifestSchema>

/** A run the wandb client logged to. */
export const modelRunSchema = z.object({
  id: z.string(),
  /** What the client calls the run's id: the model's `run_id`, its name, or an id of its own. */
  name: z.string(),
  display_name: z.string(),
  state: z.string(),
  /** Lines of history. */
  line_count: z.number().int(),
  config: z.record(z.string(), z.json()),
  /** The last value of each metric. */
  summary: z.record(z.string(), z.json()),
  created_at: z.string(),
  updated_at: z.string(),
})
export type ModelRun = z.infer<typeof modelRunSchema>

export const modelRunListSchema = listSchema(modelRunSchema)

/** One `run.log(...)`. */
export const runLineSchema = z.object({
  /** Its place in the run; the cursor of the list. */
  id: z.string(),
  metrics: z.record(z.string(), z.json()),
})
export type RunLine = z.infer<typeof runLineSchema>

export const runLineListSchema = listSchema(runLineSchema)
