/**
 * Training runs, listed and read for the Tinker client; also pages, metadata and saved weights as it reads them.
 */
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { pathOf } from '#service/queue/sessions/session-saves.js'
import { listSessionWeights, type SessionWeightsRecord } from '#service/storage/training-sessions/session-weights.js'
import {
  listTrainingSessions,
  type TrainingSessionRecord,
} from '#service/storage/training-sessions/training-sessions.js'
import { requireTrainingSession } from './errors.js'
import { requireBase } from './new-runs.js'

export interface Page {
  readonly limit: number
  readonly offset: number
}

export const ALL: Page = { limit: 1000, offset: 0 }

export function createRuns({ db, baseModels, modelFacts }: Pick<ServiceContext, 'db' | 'baseModels' | 'modelFacts'>) {
  async function toRun(session: TrainingSessionRecord) {
    const of = { entity: session.entity, project: null, sessionId: session.id }
    const { weights } = await listSessionWeights(db, of, ALL)
    const newest = (kind: SessionWeightsRecord['kind']) => {
      const found = weights.find((each) => each.kind === kind)
      return found === undefined ? null : toWireWeights(found)
    }
    return {
      training_run_id: session.id,
      base_model: session.baseModel,
      model_owner: session.entity,
      is_lora: true,
      corrupted: session.error !== null,
      lora_rank: session.rank,
      last_request_time: new Date(session.usedAtMs).toISOString(),
      last_checkpoint: newest('weights'),
      last_sampler_checkpoint: newest('sampler_weights'),
      user_metadata: toTexts(session.userMetadata),
    }
  }

  return {
    list: async (principal: Principal, page: Page) => {
      const { entity, project } = principal
      const { sessions, total } = await listTrainingSessions(db, { entity, project }, page)
      const runs = []
      for (const session of sessions) runs.push(await toRun(session))
      return { training_runs: runs, cursor: { ...page, total_count: total } }
    },
    get: async (principal: Principal, id: string) => toRun(await requireTrainingSession(db, principal, id)),
    info: async (principal: Principal, id: string) => {
      const session = await requireTrainingSession(db, principal, id)
      const name = session.baseModel
      const facts = await modelFacts.factsOf(requireBase({ baseModels }, name))
      return {
        type: 'get_info' as const,
        model_id: session.id,
        model_name: name,
        model_data: { arch: facts.architecture, model_name: name, tokenizer_id: name },
        is_lora: true,
        lora_rank: session.rank,
      }
    },
  }
}

const TYPES = { weights: 'training', sampler_weights: 'sampler', external_weights: 'external' } as const

export function toWireWeights(weights: SessionWeightsRecord) {
  const { kind, name, sessionId, createdAtMs, expiresAtMs } = weights
  return {
    checkpoint_id: `${kind}/${name ?? weights.id}`,
    checkpoint_type: TYPES[kind],
    time: new Date(createdAtMs).toISOString(),
    tinker_path: pathOf(sessionId, kind, name ?? weights.id),
    size_bytes: weights.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    public: false,
    user_metadata: toTexts(weights.userMetadata),
    expires_at: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
  }
}

/** The client reads texts alone. */
export function toTexts(metadata: Readonly<Record<string, unknown>>): Record<string, string> | null {
  const entries = Object.entries(metadata)
  if (entries.length === 0) return null
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}
