/**
 * One of everything that requests speak of, under the names that paths and bodies have for it, and a spare of what some of them end.
 */
import type { JsonValue } from '#base/util/json.js'
import type { Route } from '#contract/endpoints/table.js'
import { sampleGroup } from '../../../support/service/create-test-service.js'
import type { startService } from '../../../support/service/service-process.js'
import { openTinker, plainRows } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'
import type { KnownNames } from './mutated-requests.js'

export interface Things {
  /** What exists for a request of the route. */
  namesFor(route: Route): KnownNames
  /** Learns from an answer what came to be. */
  note(text: string): void
  /** Requests of the training run whose numbers were given and that did not come: no later one would be done. */
  fillGaps(): Promise<void>
  dispose(): Promise<void>
}

const BASE = 'trainyard/tiny-random'
/** What is ended with these would be missed by all other requests. */
const ENDINGS = /^DELETE|\/finish$|\/cancel$/
const turn = (role: string) => ({ role, content: 'a' })

/** @param untilMs how long the first job may take */
export async function createOneOfEach(
  { api, url, key }: Pick<Awaited<ReturnType<typeof startService>>, 'api' | 'url' | 'key'>,
  round: number,
  untilMs: number,
): Promise<Things> {
  const { id: model } = await api.call('POST', '/v1/preview/models', {
    project: 'tests',
    name: `fuzzed-${round}`,
    base_model: BASE,
    return_existing: true,
  })
  const job = await api.call('POST', '/v1/preview/training-jobs', {
    model_id: model,
    trajectory_groups: [sampleGroup()],
  })
  await until(
    async () => {
      const { training_end } = await api.call('GET', `/v1/preview/training-jobs/${job.id}`)
      return training_end !== null
    },
    'the first job',
    untilMs,
  )
  const of = `/v1/preview/models/${model}`
  const file = await api.uploadRows([{ messages: [turn('user'), turn('assistant')] }])
  const tuned = await api.call('POST', '/v1/fine_tuning/jobs', { model: BASE, training_file: file })
  const webhook = await api.call('POST', '/v1/preview/webhooks', { url: 'http://127.0.0.1:9/' })
  const apiKey = await api.call('POST', '/v1/preview/keys', { name: 'fuzzed', scope: 'read' })
  const begin = () => api.call('POST', '/v1/uploads', { bytes: 8, filename: 'rows.jsonl', purpose: 'batch' })
  const uploads = [await begin(), await begin()]
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(['{"custom_id":"a","method":"POST","url":"/v1/completions","body":{}}']), 'requests')
  const { id: requests } = await api.call('POST', '/v1/files', form)
  const batch = await api.call('POST', '/v1/batches', {
    input_file_id: requests,
    endpoint: '/v1/completions',
    completion_window: '24h',
  })
  const answer = await api.call('POST', '/v1/responses', { model: BASE, input: 'hi' })
  await api.call('POST', `${of}/log`, { split: 'val', trajectory_groups: [sampleGroup()] })
  // with a job that may still wait or run when it is deleted
  const spare = await api.createModel(`spare-${round}`, BASE)
  const spareJob = await api.call('POST', '/v1/preview/training-jobs', {
    model_id: spare.id,
    trajectory_groups: [sampleGroup()],
  })
  const { data: logs } = await api.call('GET', `${of}/log`)
  const mark = () =>
    api.call('POST', `${of}/marks`, { mark: 'bad', messages: [turn('user')], answer: turn('assistant') })
  const probe = () => api.call('POST', `${of}/probes`, { messages: [turn('user')], max_tokens: 2 })
  const session = () => api.call('POST', '/v1/preview/sessions', { name: 'fuzzed', scope: 'read' })
  const [marks, probes, sessions] = [
    [await mark(), await mark()],
    [await probe(), await probe()],
    [await session(), await session()],
  ]
  const { code } = await api.call('POST', '/v1/preview/sessions/codes')
  const download = `/v1/files/${file}/content`
  const tinker = await createTrainingRun({ url, key })
  const known: KnownNames = {
    model_id: model,
    training_run_id: tinker.spareRun,
    training_job_id: job.id,
    fine_tuning_job_id: tuned.id,
    file_id: file,
    upload_id: uploads[0].id,
    batch_id: batch.id,
    input_file_id: requests,
    training_file: file,
    training_data_url: file,
    webhook_id: webhook.id,
    key_id: apiKey.id,
    response_id: answer.id,
    log_id: logs[0].id,
    step: '1',
    name: 'adapter_config.json',
    page: 'api',
    id: `local/tests/fuzzed-${round}`,
    model: `local/tests/fuzzed-${round}`,
    base_model: BASE,
    project: 'tests',
    group: 0,
    trajectory: 0,
    mark_id: marks[0].id,
    probe_id: probes[0].id,
    session_id: sessions[0].id,
    code,
    path: download,
  }
  const spares: KnownNames = {
    ...known,
    model_id: spare.id,
    training_job_id: spareJob.id,
    upload_id: uploads[1].id,
    mark_id: marks[1].id,
    probe_id: probes[1].id,
    session_id: sessions[1].id,
  }
  return {
    namesFor(route) {
      const isEnding = ENDINGS.test(`${route.method} ${route.path}`)
      if (route.tag === 'Tinker client') return tinker.namesFor(route, isEnding)
      // a mark or probe that goes is one of the model that stays
      if (isEnding && route.path !== '/v1/preview/models/{model_id}') return { ...spares, model_id: model }
      return isEnding ? spares : known
    },
    note: tinker.note,
    fillGaps: tinker.fillGaps,
    dispose: async () => {
      await tinker.finish()
      // a request of a long run may have deleted it
      await api.call('DELETE', of).catch((error: Error) => {
        if (!error.message.includes(': 404 ')) throw error
      })
    },
  }
}

/** A training run with saved weights and a sampler. */
async function createTrainingRun({ url, key }: { readonly url: string; readonly key: string }) {
  const client = await openTinker({ url, apiKey: key })
  const spare = await openTinker({ url, apiKey: key })
  const { id: spareRun } = await spare.createRun()
  const run = await client.createRun()
  const data = plainRows([[1, 2, 3, 4]])
  await client.loss(await run.send({ loss: 'cross_entropy', data }))
  const saved: string[] = []
  for (const path of ['save_weights', 'save_weights_for_sampler', 'save_weights_external']) {
    const outcome = await client.result(await run.post(path, { path: 'w1', ttl_seconds: 86_400 }))
    if ('json' in outcome && typeof outcome.json['path'] === 'string') saved.push(outcome.json['path'])
  }
  const sampler = await client.json<{ sampling_session_id: string }>('create_sampling_session', {
    session_id: client.sessionId,
    sampling_session_seq_id: 1,
    base_model: BASE,
  })
  const given = new Set<number>()
  let last = `${run.id}:request:1`
  let other = 100
  const nextSeq = (): number => {
    const seq = run.nextSeq()
    given.add(seq)
    return seq
  }
  const names = {
    session_id: client.sessionId,
    model_id: run.id,
    training_run_id: run.id,
    seq_id: nextSeq,
    model_seq_id: () => other++,
    sampling_session_seq_id: () => other++,
    base_model: BASE,
    lora_config: { rank: 2, seed: 1 },
    adam_params: { learning_rate: 1e-3 },
    path: () => `w${other % 5}`,
    tinker_path: saved[0] ?? '',
    model_path: saved[1] ?? '',
    weights_kind: 'sampler_weights',
    weights_name: 'w1',
    name: 'adapter_config.json',
    sampler_id: sampler.body.sampling_session_id,
    sampling_session_id: sampler.body.sampling_session_id,
    request_id: () => last,
    prompt: { chunks: [{ type: 'encoded_text', tokens: [1, 20, 30] }] },
    sampling_params: { max_tokens: 2 },
  } satisfies Record<string, JsonValue | (() => JsonValue)>
  return {
    spareRun,
    namesFor({ path }: Route, isEnding: boolean): KnownNames {
      if (isEnding) return { ...names, session_id: spare.sessionId, weights_name: 'w2' }
      return path.endsWith('/load_weights') ? { ...names, path: saved[0] ?? '' } : names
    },
    note(text: string): void {
      const id = /"request_id":"([^"]+:(?:request|answer):[^"]+)"/.exec(text)?.[1]
      if (id === undefined) return
      last = id
      if (id.startsWith(`${run.id}:request:`)) given.delete(Number(id.split(':').at(-1)))
    },
    async fillGaps(): Promise<void> {
      const missing = [...given]
      given.clear()
      for (const seq of missing) await run.post('optim_step', { adam_params: {} }, seq)
    },
    finish: () => client.json(`sessions/${client.sessionId}/finish`, {}),
  }
}
