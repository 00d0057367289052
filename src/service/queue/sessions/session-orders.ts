/**
 * Turns a request of a training session into the order that its worker gets.
 *
 * When an update already waits behind the request for its gradients, both become one order. This halves the round trips
 * of a loop that sends requests ahead.
 */
import type { SessionOrder, StepSettingsWire } from '#contract/processes/training-session.js'
import type { Database } from '#service/storage/database.js'
import {
  type DueRequest,
  readRequestBody,
  type SessionRequestRecord,
} from '#service/storage/training-sessions/session-requests.js'
import { findSessionWeights } from '#service/storage/training-sessions/session-weights.js'

type Work = Exclude<SessionOrder, { readonly type: 'wait' | 'close' }>
/** An order without its number. */
export type Task = Work extends infer W ? (W extends { readonly order: number } ? Omit<W, 'order'> : never) : never

export interface RequestOrder {
  readonly task: Task
  /** Rows of the client, as they came. */
  readonly bytes?: Uint8Array | null
  /** The update that is a part of it. */
  readonly next?: SessionRequestRecord | null
}

/** @param due the request with its rows and the one behind it, where its turn has come; null: it is carried out again, alone */
export async function orderOf(
  db: Database,
  request: SessionRequestRecord,
  due: DueRequest | null,
): Promise<RequestOrder> {
  const { kind, detail, sessionId, seq } = request
  switch (kind) {
    case 'forward_backward':
    case 'forward': {
      const bytes = due === null ? await readRequestBody(db, sessionId, seq) : due.body
      const next = updateBehind(due)
      const update = next === null ? undefined : settingsOf(next)
      return { task: { type: 'forward_backward', update }, bytes, next }
    }
    case 'optim_step':
      return { task: { type: 'optim_step', settings: settingsOf(request) } }
    case 'load_weights': {
      const weights = await findSessionWeights(db, { id: String(detail['weightsId']) })
      const isWanted = (name: string): boolean => detail['hasOptimizer'] === true || !name.startsWith('optimizer')
      const files = (weights?.files ?? []).filter(({ name }) => isWanted(name))
      return {
        task: {
          type: 'load',
          files: files.map(({ name, sha256, sizeBytes }) => ({ name, sha256, size_bytes: sizeBytes })),
        },
      }
    }
    case 'save_weights':
      return { task: { type: 'save', parts: 'weights' } }
    case 'save_weights_for_sampler':
    case 'save_weights_external':
      return { task: { type: 'save', parts: 'adapter' } }
    case 'create':
      throw new Error('a session is created before it has a worker')
  }
}

/**
 * An update that may be ordered with the gradients in front of it. After a loss each is tried alone: it is known then at
 * which.
 */
function updateBehind(due: DueRequest | null): SessionRequestRecord | null {
  if (due === null || due.request.kind !== 'forward_backward' || due.request.losses > 0) return null
  const { next } = due
  return next?.status === 'waiting' && next.kind === 'optim_step' && next.losses === 0 ? next : null
}

function settingsOf({ detail }: SessionRequestRecord): StepSettingsWire {
  return detail['settings'] as StepSettingsWire
}
