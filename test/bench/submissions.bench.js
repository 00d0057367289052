/**
 * Many large submissions at once while others chat: how long they take, what health and the chats feel, what the server holds, and
 * the processor time of each part, which says more than the clock on a busy machine.
 * The load comes from this process, so on two cores it competes with the server.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { startService } from '../support/service/service-process.js'
import { besideHealth, createClient, memoryMb, processorSeconds, quantile } from './support/http-load.js'

export const title = 'Submissions: 208 large ones at once, beside 64 chats'

const CHAT = '/v1/chat/completions'
const RL = '/v1/preview/training-jobs'
const COUNT = 208

export async function run() {
  const service = await startService()
  try {
    const call = createClient(service)
    const model = { project: 'p', name: 'm', base_model: 'trainyard/spark' }
    const { id } = JSON.parse((await call('POST', '/v1/preview/models', model)).text)
    await call('POST', CHAT, { messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 })
    return await submissions(service, call, id)
  } finally {
    await service.stop()
  }
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
  const before = processorSeconds(service.child.pid)
  const { health, result } = await besideHealth(call, () => submitAll(service, body))
  const after = processorSeconds(service.child.pid)
  const highMb = memoryMb(service, 'VmHWM')
  const busyGap = quantile(gaps, 1)
  ended.abort()
  await Promise.all(chats)
  const lost = result.replies.filter((reply) => reply.status !== 200)
  // threads that are idle end meanwhile, and idle heaps shrink
  await sleep(60_000)
  return [
    {
      name: `${COUNT} submissions of ${(body.length / 1e6).toFixed(1)} MB beside 64 chats`,
      value: result.tookMs / 1000,
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
    ...Object.keys(after).map((part) => ({
      name: `the same: processor time of ${part}`,
      value: after[part] - (before[part] ?? 0),
      unit: 's',
    })),
    { name: 'longest gap in a chat before them', value: calmGap, unit: 'ms' },
    { name: 'server memory before, MB', value: startMb, unit: 'MB' },
    { name: 'server memory at its highest', value: highMb, unit: 'MB', target: '< 400 MB' },
    {
      name: 'server memory a minute later',
      value: memoryMb(service, 'VmRSS'),
      unit: 'MB',
      target: `<= ${Math.round(1.2 * startMb)}`,
    },
  ]
}

/** All at once, from a thread of its own. */
async function submitAll({ url, key }, body) {
  const workerData = { service: { url, key }, path: RL, body, count: COUNT }
  const thread = new Worker(new URL('./support/bulk-load.js', import.meta.url), { workerData })
  const [result] = await once(thread, 'message')
  return result
}

/** Streams one chat after the other; notes the times between two chunks of one answer that has begun: its first chunk comes before its turn. */
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
        // every token is text: a chunk each
        skip_special_tokens: false,
      }),
      signal,
    }).catch(() => null)
    if (response === null) return
    let chunks = 0
    let lastMs = 0
    try {
      for await (const _ of response.body) {
        const nowMs = performance.now()
        if (++chunks > 2) gaps.push(nowMs - lastMs)
        lastMs = nowMs
      }
    } catch {
      return
    }
  }
}
