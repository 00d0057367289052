/**
 * The client's calls about watched prompts, and what must be in their answers.
 */
import type { GivenBody, GivenQuery } from '#contract/endpoints/table.js'
import type { Probe, ProbeAnswer } from '#contract/wire/inference/probes.js'
import { deletion, pageOf } from './answers.js'
import { type CallOptions, createCalls } from './calls.js'
import type { Http } from './http.js'
import { anything, listOf, maybe, nullOr, number, objectOf, text } from './shape.js'

const PROBES = '/v1/preview/models/{model_id}/probes'
const CREATE = `POST ${PROBES}` as const
const DELETE = `DELETE ${PROBES}/{probe_id}` as const
const ANSWERS = `GET ${PROBES}/{probe_id}/answers` as const
const ASK = `POST ${PROBES}/{probe_id}/answers` as const

const probeAnswer = objectOf<ProbeAnswer>({
  id: text,
  object: anything,
  probe_id: maybe(text),
  step: number,
  status: text,
  text: nullOr(text),
  finish_reason: maybe(text),
  completion_tokens: maybe(number),
  checkpoint: maybe(text),
  error: maybe(text),
  created_at: maybe(text),
  answered_at: maybe(text),
})

const probe = objectOf<Probe>({
  id: text,
  object: anything,
  model_id: maybe(text),
  messages: listOf(objectOf<Probe['messages'][number]>({ role: text, content: text })),
  max_tokens: maybe(number),
  created_at: maybe(text),
  answers: listOf(probeAnswer),
})

export function createProbeCalls(http: Http) {
  const { ask, listOf: listOfModel } = createCalls(http)
  return {
    /** Oldest first, each with its answers at the steps asked for. */
    list: listOfModel(`GET ${PROBES}`, pageOf(probe)),
    create: (modelId: string, body: GivenBody<typeof CREATE>, call: CallOptions = {}) =>
      ask(CREATE, probe, { ids: [modelId], json: body }, call),
    delete: (modelId: string, id: string, call: CallOptions = {}) =>
      ask(DELETE, deletion, { ids: [modelId, id] }, call),
    /** By step. */
    answers: (modelId: string, id: string, query: GivenQuery<typeof ANSWERS> = {}, call: CallOptions = {}) =>
      ask(ANSWERS, pageOf(probeAnswer), { ids: [modelId, id], query }, call),
    /** Has steps answer it that have not; they do so after this. */
    ask: (modelId: string, id: string, steps: readonly number[], call: CallOptions = {}) =>
      ask(ASK, pageOf(probeAnswer), { ids: [modelId, id], json: { steps } }, call),
  }
}
