/**
 * Watched prompts: made, listed and forgotten. Who answers them is `probe-runner.ts`.
 */
import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { DEFAULT_PROBE_TOKENS, MAX_PROBES } from '#contract/wire/inference/probe-words.js'
import type {
  AskProbeRequest,
  CreateProbeRequest,
  DeletedProbe,
  ListProbeAnswersQuery,
  ListProbesQuery,
  Probe,
  ProbeAnswer,
} from '#contract/wire/inference/probes.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { unknownCursor } from '#service/storage/paging.js'
import type { ProbeRunner } from './probe-runner.js'
import {
  answerId,
  answersAt,
  deleteProbe,
  findProbe,
  insertProbe,
  listAnswers,
  listProbes,
  type ProbeAnswerRecord,
  type ProbeRecord,
} from './storage/probes.js'
import { queueAnswer } from './storage/queued-answers.js'

/** Which probe of which model. */
export interface ProbePlace {
  readonly modelId: string
  readonly probeId: string
}

interface ProbeService {
  /**
   * Begins to watch a prompt; one that is watched already is answered as it is, so that a repeated request makes no second one.
   *
   * @throws {ConflictError} `too_many_probes`
   */
  create(principal: Principal, modelId: string, request: CreateProbeRequest): Promise<Probe>
  list(principal: Principal, modelId: string, query: ListProbesQuery): Promise<List<Probe>>
  /** @throws {NotFoundError} `probe_not_found` */
  delete(principal: Principal, place: ProbePlace): Promise<DeletedProbe>
  answers(principal: Principal, place: ProbePlace, query: ListProbeAnswersQuery): Promise<List<ProbeAnswer>>
  /** Has steps answer that have not. @throws {NotFoundError} `checkpoint_not_found` */
  ask(principal: Principal, place: ProbePlace, request: AskProbeRequest): Promise<List<ProbeAnswer>>
}

export function createProbeService(
  context: Pick<ServiceContext, 'db' | 'ids'>,
  runner: Pick<ProbeRunner, 'wake' | 'forget'>,
): ProbeService {
  const { db, ids } = context

  async function requireProbe(principal: Principal, { modelId, probeId }: ProbePlace): Promise<ProbeRecord> {
    const model = await requireModel(context, principal, modelId)
    const probe = await findProbe(db, model.id, probeId)
    if (probe !== null) return probe
    throw new NotFoundError('probe_not_found', `watched prompt "${probeId.slice(0, 100)}" was not found`, {
      hint: `GET /v1/preview/models/${model.id}/probes lists those of the model`,
    })
  }

  return {
    create: async (principal, modelId, request) => {
      const model = await requireModel(context, principal, modelId)
      const { messages } = request
      if (messages.at(-1)?.role !== 'user') {
        throw new InvalidRequestError('invalid_value', 'the last of messages must have role "user": it is answered', {
          param: 'messages',
        })
      }
      const maxTokens = request.max_tokens ?? DEFAULT_PROBE_TOKENS
      const probe = await inTransaction(db, async (transaction) => {
        const known = await listProbes(transaction, model.id)
        const same = known.find((other) => isSame(other, { messages, maxTokens }))
        if (same !== undefined) return same
        if (known.length >= MAX_PROBES) {
          throw new ConflictError(
            'too_many_probes',
            `model "${model.name}" has ${MAX_PROBES} watched prompts, the most`,
            {
              hint: 'delete one of them first',
            },
          )
        }
        const id = ids.uuid()
        await insertProbe(transaction, { id, modelId: model.id, keyId: principal.keyId, messages, maxTokens })
        const newest = await findCheckpoint(transaction, model.id, 'latest')
        for (const step of new Set([0, newest?.step ?? 0])) {
          await queueAnswer(transaction, { probeId: id, step, isAsked: true })
        }
        return findProbe(transaction, model.id, id)
      })
      if (probe === null) throw new NotFoundError('model_not_found', `model "${model.name}" was deleted meanwhile`)
      runner.wake()
      return toWire(db, probe, null)
    },
    list: async (principal, modelId, { steps, after, limit = DEFAULT_PAGE_LIMIT }) => {
      const model = await requireModel(context, principal, modelId)
      const all = await listProbes(db, model.id)
      const begin = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
      if (after !== undefined && begin === 0) throw unknownCursor(after)
      const shown = all.slice(begin, begin + limit)
      const probes: Probe[] = []
      for (const probe of shown) probes.push(await toWire(db, probe, steps ?? null))
      return toList(probes, all.length > begin + limit)
    },
    delete: async (principal, place) => {
      const probe = await requireProbe(principal, place)
      await deleteProbe(db, probe.id)
      runner.forget(probe.id)
      return { id: probe.id, object: 'probe', deleted: true }
    },
    answers: async (principal, place, { after, limit = DEFAULT_PAGE_LIMIT, order = 'asc' }) => {
      const probe = await requireProbe(principal, place)
      const page = await listAnswers(db, probe.id, { limit, order, after: stepOf(probe, after) })
      return toList(page.items.map(toWireAnswer), page.hasMore)
    },
    ask: async (principal, place, request) => {
      const probe = await requireProbe(principal, place)
      const steps = [...new Set(request.steps)]
      const answers = await inTransaction(db, async (transaction) => {
        for (const step of steps) {
          if (step !== 0 && (await findCheckpoint(transaction, probe.modelId, step)) === null) {
            throw new NotFoundError('checkpoint_not_found', `the model has no checkpoint at step ${step}`, {
              param: 'steps',
              hint: 'a step whose checkpoint was deleted answers no more',
            })
          }
          await queueAnswer(transaction, { probeId: probe.id, step, isAsked: true })
        }
        return answersAt(transaction, probe.id, steps)
      })
      runner.wake()
      return toList(answers.map(toWireAnswer), false)
    },
  }
}

function isSame(probe: ProbeRecord, other: Pick<ProbeRecord, 'messages' | 'maxTokens'>): boolean {
  if (probe.maxTokens !== other.maxTokens) return false
  const textOf = (messages: ProbeRecord['messages']) =>
    JSON.stringify(messages.map(({ role, content }) => [role, content]))
  return textOf(probe.messages) === textOf(other.messages)
}

/** The step of a cursor. @throws {InvalidRequestError} `invalid_cursor` */
function stepOf({ id }: ProbeRecord, after: string | undefined): number | undefined {
  if (after === undefined) return undefined
  const step = after.startsWith(`${id}.step`) ? after.slice(id.length + 5) : ''
  if (!/^\d{1,9}$/.test(step)) throw unknownCursor(after)
  return Number(step)
}

async function toWire(db: Database, probe: ProbeRecord, steps: readonly number[] | null): Promise<Probe> {
  return {
    id: probe.id,
    object: 'probe',
    model_id: probe.modelId,
    messages: probe.messages.map(({ role, content }) => ({ role, content })),
    max_tokens: probe.maxTokens,
    created_at: new Date(probe.createdAtMs).toISOString(),
    answers: (await answersAt(db, probe.id, steps)).map(toWireAnswer),
  }
}

function toWireAnswer(answer: ProbeAnswerRecord): ProbeAnswer {
  return {
    id: answerId(answer),
    object: 'probe_answer',
    probe_id: answer.probeId,
    step: answer.step,
    status: answer.status,
    text: answer.text,
    finish_reason: answer.finishReason,
    completion_tokens: answer.completionTokens,
    checkpoint: answer.checkpoint,
    error: answer.error,
    created_at: new Date(answer.createdAtMs).toISOString(),
    answered_at: answer.answeredAtMs === null ? null : new Date(answer.answeredAtMs).toISOString(),
  }
}
