/**
 * What one client's requests cost the others: health beside the worst requests there are, 208 large submissions beside 64
 * chats, and plain requests per second. The load comes from this process, so on two cores it competes with the server.
 */
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { startService } from '../support/service/service-process.js'

export const title = 'Requests: health beside the worst ones, large submissions beside chats, requests per second'

const CHAT = '/v1/chat/completions'
const RL = '/v1/preview/training-jobs'
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

export async function run() {
  const rows = []
  const service = await startService()
  try {
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
    rows.push(...(await submissions(service, call, id)))
  } finally {
    await service.stop()
  }
  return rows
}

/** 208 bodies of 3.2 MB at once, while 64 chats stream. */
async function submissions(service, call, modelId) {
  const answer = {
    finish_reason: 'length',
    index: 0,
    message: { role: 'assistant', content: 'x'.repeat(400) },
    logprobs: {
      content: Array.from({ length: 200 }, (_, i) => ({
        token: `token_id:${i}`,
        logprob: -0.123456 * (i % 7),
        bytes: [65, 66],
        top_logprobs: [],
      })),
    },
  }
  const group = (g) => ({
    trajectories: Array.from({ length: 10 }, (_, i) => ({
      messages_and_choices: [{ role: 'user', content: `Task ${g}` }, answer],
      reward: i % 2,
    })),
  })
  const groups = Array.from({ length: 20 }, (_, g) => group(g))
  const body = Buffer.from(JSON.stringify({ model_id: modelId, trajectory_groups: groups }))
  const startMb = memoryMb(service, 'VmRSS')
  const ended = new AbortController()
  const gaps = []
  const chats = Array.from({ length: 64 }, () => streamChats(service, ended.signal, gaps))
  await sleep(3000)
  const calmGap = quantile(gaps.splice(0), 1)
  const startedMs = performance.now()
  let tookMs = 0
  const { health, result } = await besideHealth(call, async () => {
    const replies = await Promise.all(
      Array.from({ length: 208 }, (_, i) => call('POST', RL, body, { 'idempotency-key': `k${i}` })),
    )
    tookMs = performance.now() - startedMs
    return replies
  })
  const highMb = memoryMb(service, 'VmHWM')
  const busyGap = quantile(gaps, 1)
  ended.abort()
  await Promise.all(chats)
  const lost = result.filter((reply) => reply.status !== 200)
  await sleep(20_000)
  return [
    {
      name: `208 submissions of ${(body.length / 1e6).toFixed(1)} MB beside 64 chats`,
      value: tookMs / 1000,
      unit: 's',
      target: '<= 25 s',
    },
    {
      name: `the same: refused ${lost[0] === undefined ? '' : lost[0].text.slice(0, 200)}`,
      value: lost.length,
      unit: '',
      target: '0',
    },
    { name: 'the same: health p95', value: health.p95, unit: 'ms', target: '<= 100 ms' },
    { name: 'the same: longest gap in a chat', value: busyGap, unit: 'ms', target: '<= 300 ms' },
    { name: 'longest gap in a chat before them', value: calmGap, unit: 'ms' },
    { name: 'server memory before, MB', value: startMb, unit: 'MB' },
    { name: 'server memory at its highest', value: highMb, unit: 'MB', target: '< 400 MB' },
    { name: 'server memory 20 s later', value: memoryMb(service, 'VmRSS'), unit: 'MB' },
  ]
}

/** Streams one chat after the other; notes the times between two chunks of one stream. */
async function streamChats({ url, key }, signal, gaps) {
  while (!signal.aborted) {
    const response = await fetch(url + CHAT, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'Tell me.' }],
        stream: true,
        max_tokens: 400,
        ignore_eos: true,
      }),
      signal,
    }).catch(() => null)
    if (response === null) return
    let lastMs = 0
    try {
      for await (const _ of response.body) {
        const nowMs = performance.now()
        if (lastMs > 0) gaps.push(nowMs - lastMs)
        lastMs = nowMs
      }
    } catch {
      return
    }
  }
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

/** Runs `task` while health is asked every few milliseconds. */
async function besideHealth(call, task) {
  const times = []
  let isDone = false
  const probing = (async () => {
    while (!isDone || times.length < 50) {
      const startMs = performance.now()
      await call('GET', '/v1/health', undefined, {}, true)
      times.push(performance.now() - startMs)
      await sleep(5)
    }
  })()
  const result = await task()
  isDone = true
  await probing
  return { result, health: { p95: quantile(times, 0.95), p99: quantile(times, 0.99) } }
}

/** Node's own client: `fetch` costs more than the server does. */
function createClient({ url, key }) {
  const agent = new Agent({ keepAlive: true, maxSockets: 512 })
  const probes = new Agent({ keepAlive: true, maxSockets: 1 })
  const { hostname, port } = new URL(url)
  return (method, path, body, headers = {}, isProbe = false) =>
    new Promise((resolve, reject) => {
      const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
      const sent = request(
        {
          hostname,
          port,
          path,
          method,
          agent: isProbe ? probes : agent,
          headers: {
            authorization: `Bearer ${key}`,
            ...(bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': bytes.length }),
            ...headers,
          },
        },
        (response) => {
          let text = ''
          response.on('data', (data) => {
            text += data
          })
          response.on('end', () => resolve({ status: response.statusCode, text }))
          response.on('error', reject)
        },
      )
      sent.on('error', reject)
      sent.end(bytes)
    })
}

function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0
}

function memoryMb(service, field) {
  const match = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${service.child.pid}/status`, 'utf8'))
  return match === null ? 0 : Math.round(Number(match[1]) / 1024)
}
