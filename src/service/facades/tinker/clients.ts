/**
 * Sessions of Tinker clients (create, heartbeat, end), and what the server can do: its models and their context
 * lengths.
 */
import type { CreateClientSession } from '#contract/wire/compatible/tinker.js'
import { endClientSession, insertClientSession, touchClientSession } from '#service/storage/tinker/client-sessions.js'
import { listTrainingSessions } from '#service/storage/tinker/training-sessions.js'
import type { Principal, ServiceContext } from '../../operations/context.js'
import { requireClientSession } from './errors.js'
import type { Samples } from './samples.js'

/** What a client should know that it does not ask for. */
const NOTE =
  'this server trains adapters of attention and MLP layers with alpha 32; the output head stays as it is (train_unembed)'

export function createClients(
  context: Pick<
    ServiceContext,
    'db' | 'ids' | 'sessions' | 'baseModels' | 'engines' | 'modelFacts' | 'trainWorkers' | 'dispatcher'
  >,
  samples: Pick<Samples, 'dropOf'>,
) {
  const { db, ids, sessions, engines, modelFacts } = context
  return {
    create: async (principal: Principal, request: CreateClientSession) => {
      const id = ids.uuid()
      await insertClientSession(db, {
        id,
        entity: principal.entity,
        project: principal.project,
        keyId: principal.keyId,
        tags: request.tags ?? [],
        userMetadata: request.user_metadata ?? {},
        sdkVersion: request.sdk_version ?? '',
        displayName: request.display_name ?? null,
      })
      return {
        type: 'create_session' as const,
        session_id: id,
        info_message: null,
        warning_message: NOTE,
        error_message: null,
      }
    },
    heartbeat: async (principal: Principal, id: string) => {
      await requireClientSession(db, principal, id)
      await touchClientSession(db, id)
      return { type: 'session_heartbeat' as const }
    },
    finish: async (principal: Principal, id: string): Promise<void> => {
      const client = await requireClientSession(db, principal, id)
      await endClientSession(db, client.id)
      samples.dropOf(client.id)
      const of = { entity: client.entity, project: null, clientSessionId: client.id }
      const runs = await listTrainingSessions(db, of, { limit: 1000, offset: 0 })
      for (const run of runs.sessions) sessions.close(run.id)
    },
    capabilities: () => ({
      supported_models: context.baseModels.map(({ name }) => ({
        model_name: name,
        max_context_length:
          engines
            .started()
            .find(({ baseModel }) => baseModel === name)
            ?.loaded()?.contextLength ?? modelFacts.contextLengthOf(name),
        trainable: context.trainWorkers > 0 || context.dispatcher.remoteWorkers().length > 0,
        sampleable: true,
      })),
    }),
  }
}
