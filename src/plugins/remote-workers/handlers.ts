/**
 * The handler of claims.
 */

import { AppError } from '#base/errors/errors.js'
import { packageVersion } from '#base/util/package-root.js'
import type { WorkerClaim, WorkerClaimRequest } from '#contract/processes/worker-claim.js'
import { connectionOf } from '#service/http/event-stream.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { remoteWorkerEndpoints } from './endpoints.js'

/**
 * Claims of workers on other machines (`contract/processes/worker-claim.ts`): who may ask, and what they get. The claim itself is the
 * queue's, the same as for workers of this machine.
 */
interface WorkerClaimService {
  /**
   * @param signal of the worker: aborted, nobody waits any more
   * @throws {AppError} `worker_version` for a worker of another minor version: its numbers could be others
   */
  claim(principal: Principal, request: WorkerClaimRequest, signal: AbortSignal): Promise<WorkerClaim>
}

function createWorkerClaimService({ dispatcher }: Pick<ServiceContext, 'dispatcher'>): WorkerClaimService {
  const version = packageVersion()
  return {
    claim: async (principal, request, signal) => {
      const { id, trainers, memory_bytes: memoryBytes, ...facts } = request.worker
      const { left, is_leaving: isLeaving } = request
      // one that ends may give back what it has, of whatever version it is
      if (!isLeaving) assertSameVersion(facts.versions['trainyard'] ?? 'none', version)
      const claimed = await dispatcher.claim(
        // workers of another key have other ids, whatever they say: none gives back what this one has
        { ...facts, id: `${principal.keyId}.${id}`, trainers, memoryBytes, tenant: ownerOf(principal) },
        {
          waitMs: request.wait_seconds * 1000,
          signal,
          left: left === null ? null : { reason: left.reason, isOrderly: left.is_orderly },
          isLeaving,
        },
      )
      if (claimed === null) return { claim: null }
      const { kind, id: jobId, attempt, token, modelId } = claimed
      return { claim: { job_id: jobId, attempt, token, model_id: modelId, is_session: kind === 'session' } }
    },
  }
}

function assertSameVersion(given: string, own: string): void {
  if (minorOf(given) === minorOf(own)) return
  throw new AppError('conflict', 'worker_version', `this server is version ${own}, the worker is version ${given}`, {
    hint: `install trainyard ${own} on the worker's machine and start it again`,
    details: { version: own },
  })
}

/** `0.1` of `0.1.2`. */
function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

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
