/**
 * What one client's requests cost the others: health beside the worst requests there are, and plain requests per second. The
 * load comes from this process, so on two cores it competes with the server.
 *
 *     npm run bench -- requests --only bursts      340 and 1,024 chats at once, a minute
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { startService } from '../support/service/service-process.js'
import { besideHealth, createClient, memoryMb } from './support/http-load.js'

export const title = 'Requests: health beside the worst ones, requests per second'

const CHAT = '/v1/chat/completions'
const RL = '/v1/preview/training-jobs'
/** The server's default limit of waiting chats. */
const MAX_PENDING = 512
const repeat = (count, text) => Buffer.from(Array(count).fill(text).join(','))
const wrap = (before, middle, after) => Buffer.concat([Buffer.from(before), middle, Buffer.from(after)])
const keys = (count) => Buffer.from(Array.from({ length: count }, (_, i) => `"${i}":0`).join(','))

/** Name → method, path, body. `model` is the id of one that exists. */
const WORST = (model) => ({
  '1.9 million empty messages (5.7 MB)': ['POST', CHAT, wrap('{"messages":[', repeat(1_900_000, '{}'), ']}')],
  '45,000 wrong messages': ['POST', CHAT, wrap('{"messages":[', repeat(45_000, '{}'), ']}')],
  '5,000 wrong messages (15 kB)': ['POST', CHAT, wrap('{"messages":[', repeat(5000, '{}'), ']}')],
  '1 million logit_bias keys': ['POST', CHAT, wrap('{"messages":[],"logit_bias":{', keys(1_000_000), '}}')],
  '300,000 wrong logit_bias keys': [
    'POST',
    CHAT,
    wrap('{"messages":[],"logit_bias":{', Buffer.from(keys(300_000).toString().replaceAll(':0', ':"x"')), '}}'),
  ],
  '300,000 wrong token ids': [
    'POST',
    CHAT,
    wrap('{"messages":[],"allowed_token_ids":[', repeat(300_000, '-1.5'), ']}'),
  ],
  'one string of 15 MB': [
    'POST',
    CHAT,
    wrap('{"messages":[{"role":"u","content":7}],"x":"', Buffer.alloc(15e6, 120), '"}'),
  ],
  'nesting without end': ['POST', CHAT, wrap('{"messages":', Buffer.alloc(15e6, 91), '')],
  '2.5 million wrong steps': [
    'DELETE',
    `/v1/preview/models/${model}/checkpoints`,
    wrap('{"steps":[', repeat(2_500_000, '{}'), ']}'),
  ],
  'a config of 190,000 keys': [
    'POST',
    '/v1/preview/sft-training-jobs',
    wrap(`{"model_id":"${model}","training_data_url":"file-x","experimental_config":{`, keys(190_000), '}}'),
  ],
  'a group of 60 MB of empty lists': [
    'POST',
    RL,
    wrap(`{"model_id":"${model}","trajectory_groups":[{"trajectories":[`, repeat(20_000_000, '[]'), ']}]}'),
  ],
  'a group beyond 128 MB': [
    'POST',
    RL,
    wrap(`{"model_id":"${model}","trajectory_groups":[{"metadata":{"x":"`, Buffer.alloc(140e6, 120), '"}}]}'),
  ],
  'a wrong value behind 60 MB of groups': [
    'POST',
    RL,
    wrap(
      `{"model_id":"${model}","trajectory_groups":[`,
      repeat(
        500_000,
        '{"trajectories":[{"messages_and_choices":[{"role":"user","content":"some text of usual length, say sixty characters"}]}]}',
      ),
      ',7]}',
    ),
  ],
})

export async function run({ only = '' } = {}) {
  const rows = []
  const service = await startService()
  try {
    if (only === 'bursts') return await bursts(service)
    const call = createClient(service)
    const { id } = JSON.parse(
      (await call('POST', '/v1/preview/models', { project: 'p', name: 'm', base_model: 'trainyard/spark' })).text,
    )
    await call('POST', CHAT, { messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 })
    for (const [name, [method, path, body]] of Object.entries(WORST(id))) {
      const { result, health } = await besideHealth(call, () => call(method, path, body))
      if (result.status < 400 || result.status >= 500)
        throw new Error(`${name}: ${result.status} ${result.text.slice(0, 300)}`)
      rows.push({
        name: `health p99 beside: ${name} → ${result.status}`,
        value: health.p99,
        unit: 'ms',
        target: '<= 100 ms',
      })
    }
    const { health } = await besideHealth(call, () => sleep(2000))
    rows.push({ name: 'health p99 beside nothing', value: health.p99, unit: 'ms' })
    rows.push({ name: 'server memory at its highest', value: memoryMb(service, 'VmHWM'), unit: 'MB' })
    rows.push(...(await perSecond(call, id)))
    rows.push(...(await bursts(service)))
  } finally {
    await service.stop()
  }
  return rows
}

/** Chats, all at once: none is refused up to the default limit, and beyond it at once. The second ones last, so that they pile up. */
async function bursts(service) {
  const call = createClient(service, 2 * MAX_PENDING)
  const burst = async (count, tokens) => {
    const startMs = performance.now()
    const ask = async (i) => {
      const chat = { messages: [{ role: 'user', content: `Number ${i}.` }], max_tokens: tokens, ignore_eos: true }
      const { status } = await call('POST', CHAT, chat)
      return { status, afterMs: performance.now() - startMs }
    }
    return Promise.all(Array.from({ length: count }, (_, i) => ask(i)))
  }
  const within = (await burst(340, 16)).filter(({ status }) => status !== 200)
  const refused = (await burst(2 * MAX_PENDING, 48)).filter(({ status }) => status === 429)
  return [
    { name: '340 chats at once: refused', value: within.length, unit: '', target: '0' },
    {
      name: `${2 * MAX_PENDING} chats at once: first of ${refused.length} refusals`,
      value: Math.min(...refused.map(({ afterMs }) => afterMs)),
      unit: 'ms',
      target: '<= 500 ms',
    },
  ]
}

async function perSecond(call, modelId) {
  const job = { model_id: modelId, trajectory_groups: [] }
  const { id } = JSON.parse((await call('POST', RL, job)).text)
  const rows = []
  for (const [name, path, target] of [
    ['GET /v1/health', '/v1/health', 2000],
    ['GET of a job, with a key', `${RL}/${id}`, 1000],
    ['GET /v1/models', '/v1/models', undefined],
  ]) {
    const endMs = performance.now() + 4000
    let count = 0
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (performance.now() < endMs) {
          const { status } = await call('GET', path)
          if (status !== 200) throw new Error(`${name}: ${status}`)
          count += 1
        }
      }),
    )
    rows.push({ name, value: count / 4, unit: '1/s', ...(target === undefined ? {} : { target: `>= ${target}` }) })
  }
  return rows
}
