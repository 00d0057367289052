/**
 * Sessions of Tinker clients (create, heartbeat, list, end), and what the server can do: its models and their context
 * lengths.
 */
import type { CreateClientSession } from '#contract/wire/training/training-loops.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import {
  endClientSession,
  insertClientSession,
  listClientSessions,
  listSamplers,
  touchClientSession,
} from '#service/storage/training-sessions/client-sessions.js'
import { listTrainingSessions } from '#service/storage/training-sessions/training-sessions.js'
import { requireClientSession } from './errors.js'
import { ALL, type Page, toTexts } from './runs.js'
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
      const runs = await listTrainingSessions(db, of, ALL)
      for (const run of runs.sessions) sessions.close(run.id)
    },
    list: async (principal: Principal, page: Page) => {
      const { entity, project } = principal
      const { sessions, total } = await listClientSessions(db, { entity, project }, page)
      return { sessions: sessions.map(({ id }) => id), cursor: { ...page, total_count: total } }
    },
    get: async (principal: Principal, id: string) => {
      const client = await requireClientSession(db, principal, id)
      const { entity, project } = principal
      const runs = await listTrainingSessions(db, { entity, project, clientSessionId: client.id }, ALL)
      const samplers = await listSamplers(db, client.id)
      return {
        training_run_ids: runs.sessions.map((run) => run.id),
        sampler_ids: samplers.map((sampler) => sampler.id),
        user_metadata: toTexts(client.userMetadata),
        display_name: client.displayName,
      }
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
