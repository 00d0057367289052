/**
 * The handler of claims.
 */
import { connectionOf } from '#service/http/event-stream.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { createWorkerClaimService } from './claims.js'
import type { remoteWorkerEndpoints } from './endpoints.js'

export function remoteWorkerHandlers({
  context,
  app: { closing },
}: PluginService): PluginHandlers<typeof remoteWorkerEndpoints> {
  const claims = createWorkerClaimService(context)
  return {
    'POST /internal/worker/claims': async ({ principal, body, c }) => {
      const request = await body()
      const gone = new AbortController()
      connectionOf(c)?.once('close', () => gone.abort())
      return claims.claim(principal, request, AbortSignal.any([c.req.raw.signal, closing, gone.signal]))
    },
  }
}
