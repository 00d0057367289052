/**
 * W&B's client: GraphQL, the stream of a run's files, and signed addresses for bytes; what it logged is read with the model.
 */
import { readBytes } from '#service/http/body.js'
import type { RequestContext } from '#service/http/environment.js'
import { sendFile } from '#service/http/file-answer.js'
import { noteOwner } from '#service/http/owner.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { wandbEndpoints } from './endpoints.js'
import { createModelRunService } from './model-runs.js'
import { createWandbService } from './wandb.js'
import type { Ticket } from './wire.js'

export function wandbHandlers({ context, app: { publicAddress } }: PluginService) {
  const wandb = createWandbService(context)
  const modelRuns = createModelRunService(context)

  /** What a signed address allows; from there on the request is that of whoever asked for the address. */
  async function signedTicket(c: RequestContext): Promise<Ticket> {
    const ticket = await wandb.verify(c.req.query('token') ?? '')
    noteOwner(c, ticket.entity)
    return ticket
  }

  const handlers: PluginHandlers<typeof wandbEndpoints> = {
    'POST /graphql': async ({ principal, body, c }) => {
      const { query, variables, operationName } = await body()
      const request = { query, variables: variables ?? {}, operationName: operationName ?? null }
      return wandb.graphql(principal, request, publicAddress.of(c))
    },
    'POST /files/{entity}/{project}/{run}/file_stream': async ({ principal, params, body }) => {
      await wandb.stream(principal, params, await body())
      return { limits: {} }
    },
    'PUT /wandb/storage': async ({ c }) => {
      await wandb.put(await signedTicket(c), readBytes(c, c.get('bodies').limits.uploadBytes))
      return {}
    },
    'GET /wandb/storage': async ({ c }) => {
      const { bytes } = await wandb.open(await signedTicket(c))
      const headers = { 'content-type': 'application/octet-stream' }
      if (bytes instanceof Uint8Array) return c.body(Buffer.from(bytes), 200, headers)
      return sendFile(c, bytes, headers)
    },
    'GET /v1/preview/models/{model_id}/runs': ({ principal, params, query }) =>
      modelRuns.list(principal, params.model_id, query()),
    'GET /v1/preview/models/{model_id}/runs/{run_id}/history': ({ principal, params, query }) =>
      modelRuns.history(principal, params.model_id, params.run_id, query()),
  }
  return handlers
}
