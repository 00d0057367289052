/**
 * Whole-service figures, as a user meets them: start-up, memory while serving and training, throughput through HTTP.
 *
 *     npm run bench -- service --only beside      chats beside a job alone, a few minutes
 *
 * Memory is the sum of each process's peak resident size (VmHWM), so pages that two processes share count twice.
 */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { findSmolLm2, mapConcurrently, startService } from '../support/service/service-process.js'
import { chatsBesideJob } from './peers/beside.js'
import { childrenOf, peakBytes } from './support/processes.js'

export const title = 'Service: start-up, memory, throughput through HTTP'

const LAUNCHER = path.resolve(import.meta.dirname, '../../bin/trainyard.js')

const SPARK = { baseModel: 'trainyard/spark', rows: 240, words: 60, name: 'spark' }
const SMOLLM2 = { baseModel: 'smollm2-135m', rows: 16, words: 150, name: '135M' }

export async function run({ only = '' } = {}) {
  if (only === 'beside') return await besideOnly()
  const rows = []
  rows.push({
    name: 'trainyard --help, median of 9',
    value: medianMs(9, () => spawnSync(process.execPath, [LAUNCHER, '--help'])),
    unit: 'ms',
    target: '< 200 ms',
  })
  rows.push({
    name: 'node -e 0, median of 9',
    value: medianMs(9, () => spawnSync(process.execPath, ['-e', '0'])),
    unit: 'ms',
  })

  const startedAt = performance.now()
  const first = await startService()
  rows.push({
    name: 'server ready, built-in model, first start',
    value: first.readyMs,
    unit: 'ms',
    target: '< 2000 ms',
  })
  await firstToken(first, 'trainyard/spark')
  const firstTokenMs = performance.now() - startedAt
  rows.push({ name: 'the same until the first token of a chat', value: firstTokenMs, unit: 'ms', target: '< 3000 ms' })
  rows.push(...(await chatsBesideJob(first, SPARK)))
  await first.stop()

  const modelPath = await findSmolLm2()
  if (modelPath === null) return rows
  const service = await startService({ args: ['--base-model', `smollm2-135m=${modelPath}`, '--precision', 'f32'] })
  try {
    const { api } = service
    const ask = (maxTokens) =>
      api.chat({
        model: 'smollm2-135m',
        messages: [{ role: 'user', content: 'Tell me about the history of the steam engine.' }],
        max_tokens: maxTokens,
        ignore_eos: true,
        temperature: 1,
      })
    await ask(8)
    for (const streams of [1, 8]) {
      const startedAt = performance.now()
      const replies = await mapConcurrently(Array.from({ length: streams }), streams, () => ask(64))
      const tokens = replies.reduce((sum, reply) => sum + reply.usage.completion_tokens, 0)
      rows.push({
        name: `135M f32 through HTTP, ${streams} at once`,
        value: tokens / ((performance.now() - startedAt) / 1000),
        unit: 'tokens/s',
      })
    }
    const serving = peakMemory(service.child.pid)
    rows.push({ name: 'peak memory, server process', value: serving.parentMb, unit: 'MB' })
    rows.push({
      name: 'peak memory, serving 135M f32, all processes',
      value: serving.totalMb,
      unit: 'MB',
      target: '< 1200 MB',
    })

    const model = await api.createModel('memory', 'smollm2-135m')
    const text = 'the quick brown fox jumps over the lazy dog and runs on '.repeat(20)
    const file = await api.uploadRows(
      Array.from({ length: 8 }, () => ({
        messages: [
          { role: 'user', content: 'Write.' },
          { role: 'assistant', content: text },
        ],
      })),
    )
    const job = await api.call('POST', '/v1/preview/sft-training-jobs', {
      model_id: model.id,
      training_data_url: file,
      config: { batch_size: 4, learning_rate: 1e-4 },
    })
    let workerPeakMb = 0
    const timer = setInterval(() => {
      workerPeakMb = Math.max(workerPeakMb, peakMemory(service.child.pid).largestChildMb)
    }, 100)
    await api.waitForJob(job.id)
    clearInterval(timer)
    rows.push({ name: 'peak memory, training worker, B=4x~256', value: workerPeakMb, unit: 'MB', target: '< 4000 MB' })
  } finally {
    await service.stop()
  }
  return rows
}

async function besideOnly() {
  const modelPath = await findSmolLm2()
  const rows = []
  const services = [[SPARK, {}]]
  if (modelPath !== null) services.push([SMOLLM2, { args: ['--base-model', `${SMOLLM2.baseModel}=${modelPath}`] }])
  for (const [job, options] of services) {
    const service = await startService(options)
    try {
      rows.push(...(await chatsBesideJob(service, job)))
    } finally {
      await service.stop()
    }
  }
  return rows
}

/** Asks and reads the stream until an answer has begun. */
async function firstToken({ url, key }, model) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      stream: true,
      max_tokens: 16,
      messages: [{ role: 'user', content: 'Hello there.' }],
    }),
  })
  let text = ''
  for await (const bytes of response.body) {
    text += Buffer.from(bytes).toString()
    if (/"content":"[^"]/.test(text)) return
  }
  throw new Error(`no token came: ${response.status} ${text.slice(0, 600)}`)
}

function medianMs(count, task) {
  const times = Array.from({ length: count }, () => {
    const startedAt = performance.now()
    task()
    return performance.now() - startedAt
  }).sort((a, b) => a - b)
  return times[count >> 1]
}

function peakMemory(pid) {
  const peakOf = (id) => Math.round(peakBytes(id) / 2 ** 20)
  const parentMb = peakOf(pid)
  const children = childrenOf(pid).map(peakOf)
  return {
    parentMb,
    largestChildMb: Math.max(0, ...children),
    totalMb: parentMb + children.reduce((sum, value) => sum + value, 0),
  }
}
