/**
 * The client's calls about models and what trains them: checkpoints, watched prompts, jobs and what each would do, runs of training loops.
 */
import { systemIds } from '#base/util/ids.js'
import type { BodyKey, GivenBody, GivenQuery } from '#contract/endpoints/table.js'
import * as answers from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { type FollowOptions, followEvents } from './event-stream.js'
import type { Http } from './http.js'
import * as watched from './watch-answers.js'

const PROBES = '/v1/preview/models/{model_id}/probes'
const PROBE_ANSWERS = `GET ${PROBES}/{probe_id}/answers` as const
type JobKey = BodyKey & `POST /v1/preview/${string}training-jobs`
type FilesQuery = GivenQuery<'GET /v1/preview/models/{model_id}/checkpoints/{step}/files'>

export function createModelCalls(http: Http) {
  const { ask, one, list, listOf, send } = createCalls(http)
  return {
    models: {
      list: list('GET /v1/preview/models', answers.pageOf(answers.listedModel)),
      get: one('GET /v1/preview/models/{model_id}', answers.model),
      create: send('POST /v1/preview/models', answers.model),
      delete: one('DELETE /v1/preview/models/{model_id}', watched.deletedModel),
      /** Which of its checkpoints stay. */
      keepRule: one('GET /v1/preview/models/{model_id}/keep-rule', watched.keepRule),
      /** @param rule `all`, or parts of `last 5, best val/reward, every 10`; null: the server's */
      setKeepRule: (id: string, rule: string | null, call: CallOptions = {}) =>
        ask('PUT /v1/preview/models/{model_id}/keep-rule', watched.keepRule, { ids: [id], json: { rule } }, call),
      /** What somebody wrote about it. */
      note: one('GET /v1/preview/models/{model_id}/note', watched.modelNote),
      setNote: (id: string, note: GivenBody<'PUT /v1/preview/models/{model_id}/note'>, call: CallOptions = {}) =>
        ask('PUT /v1/preview/models/{model_id}/note', watched.modelNote, { ids: [id], json: note }, call),
      /** Its curves, also of steps whose checkpoints were deleted. */
      metrics: listOf('GET /v1/preview/models/{model_id}/metrics', watched.modelMetrics),
      /** What was logged, newest first. */
      logs: listOf('GET /v1/preview/models/{model_id}/log', answers.pageOf(watched.trajectoryLog)),
      /** What was logged at two steps, prompt by prompt. */
      compareLogs: listOf('GET /v1/preview/models/{model_id}/log/compare', watched.logComparison),
      /** Averages trajectory groups into metrics of the latest checkpoint; trains nothing. */
      log: (id: string, body: GivenBody<'POST /v1/preview/models/{model_id}/log'>, call: CallOptions = {}) =>
        ask(
          'POST /v1/preview/models/{model_id}/log',
          answers.loggedTrajectories,
          { ids: [id], json: body },
          { isLong: true, ...call },
        ),
    },
    checkpoints: {
      list: listOf('GET /v1/preview/models/{model_id}/checkpoints', answers.pageOf(answers.checkpoint)),
      delete: (modelId: string, steps: readonly number[], call: CallOptions = {}) =>
        ask(
          'DELETE /v1/preview/models/{model_id}/checkpoints',
          answers.deletedCheckpoints,
          { ids: [modelId], json: { steps } },
          call,
        ),
      /** Files of a checkpoint, or of its export in another format; step 0 is the base model. */
      files: (modelId: string, step: number, { signal, ...query }: CallOptions & FilesQuery = {}) =>
        ask(
          'GET /v1/preview/models/{model_id}/checkpoints/{step}/files',
          answers.checkpointFiles,
          { ids: [modelId, step], query },
          { isLong: true, signal },
        ),
      /** The open body of one file; the caller checks the digest. */
      download: (modelId: string, step: number, name: string, { signal, ...query }: CallOptions & FilesQuery = {}) =>
        http.open(
          requestOf(
            'GET /v1/preview/models/{model_id}/checkpoints/{step}/files/{name}',
            { ids: [modelId, step, name], query },
            { isLong: true, signal },
          ),
        ),
    },
    /** Watched prompts. */
    probes: {
      /** Oldest first, each with its answers at the steps asked for. */
      list: listOf(`GET ${PROBES}`, answers.pageOf(watched.probe)),
      create: (modelId: string, body: GivenBody<`POST ${typeof PROBES}`>, call: CallOptions = {}) =>
        ask(`POST ${PROBES}`, watched.probe, { ids: [modelId], json: body }, call),
      delete: (modelId: string, id: string, call: CallOptions = {}) =>
        ask(`DELETE ${PROBES}/{probe_id}`, answers.deletion, { ids: [modelId, id] }, call),
      /** By step. */
      answers: (modelId: string, id: string, query: GivenQuery<typeof PROBE_ANSWERS> = {}, call: CallOptions = {}) =>
        ask(PROBE_ANSWERS, answers.pageOf(watched.probeAnswer), { ids: [modelId, id], query }, call),
      /** Has steps answer it that have not; they do so after this. */
      ask: (modelId: string, id: string, steps: readonly number[], call: CallOptions = {}) =>
        ask(
          `POST ${PROBES}/{probe_id}/answers`,
          answers.pageOf(watched.probeAnswer),
          { ids: [modelId, id], json: { steps } },
          call,
        ),
    },
  }
}

/** @param idempotencyKey of a create that another process may repeat; default one that no other knows */
export interface CreateOptions extends CallOptions {
  readonly idempotencyKey?: string | undefined
}

export function createTrainingCalls(http: Http) {
  const { list, listOf, one } = createCalls(http)
  /** Lets the server recognise a create that arrives twice. */
  const create =
    <K extends JobKey>(key: K) =>
    (job: GivenBody<K>, { idempotencyKey = systemIds.uuid(), ...call }: CreateOptions = {}) => {
      const headers = { 'idempotency-key': idempotencyKey }
      return http.json(requestOf(key, { json: job }, { headers, isLong: true, ...call }), answers.trainingJob)
    }
  const plan =
    <K extends JobKey>(key: K) =>
    (job: GivenBody<K>, call: CallOptions = {}) =>
      http.json(requestOf(key, { query: { plan: true }, json: job }, { isLong: true, ...call }), answers.trainingPlan)

  return {
    trainingJobs: {
      list: list('GET /v1/preview/training-jobs', answers.pageOf(answers.trainingJob)),
      get: one('GET /v1/preview/training-jobs/{training_job_id}', answers.trainingJob),
      createRl: create('POST /v1/preview/training-jobs'),
      createDpo: create('POST /v1/preview/dpo-training-jobs'),
      createSft: create('POST /v1/preview/sft-training-jobs'),
      /** What a job would do; starts nothing. */
      planRl: plan('POST /v1/preview/training-jobs'),
      planDpo: plan('POST /v1/preview/dpo-training-jobs'),
      planSft: plan('POST /v1/preview/sft-training-jobs'),
      /** What each kind of job can be told, with defaults, and what suits a base model. */
      options: list('GET /v1/preview/training-options', watched.trainingOptions),
      events: listOf('GET /v1/preview/training-jobs/{training_job_id}/events', answers.pageOf(answers.trainingEvent)),
      /** Events until the terminal one; reconnects by itself. */
      follow: (id: string, follow?: FollowOptions) => followEvents(http, id, follow),
      cancel: one('POST /v1/preview/training-jobs/{training_job_id}/cancel', answers.trainingJob),
      stop: one('POST /v1/preview/training-jobs/{training_job_id}/stop', answers.trainingJob),
    },
    trainingSessions: {
      list: list('GET /v1/preview/training-sessions', answers.pageOf(watched.trainingSession)),
      end: one('POST /v1/preview/training-sessions/{training_run_id}/end', watched.trainingSession),
    },
  }
}
