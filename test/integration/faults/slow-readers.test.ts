/**
 * Clients that ask for long streams and then read nothing, or read slowly: their slots are free when the answer is computed, what
 * waits for them is bounded, others notice nothing, and who reads late gets all of it.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const STREAMS = 6
const CHOICES = 4
const TOKENS = 600
/** What the server may hold for streams of which each has several megabytes, beside what it holds anyway. */
const MOST_MORE_MB = 200

let dataDir: string
let server: KillableServer
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-slow-'))
  server = await startKillableServer({ dataDir, threads: 1 })
  await chat()
})
afterAll(async () => {
  await server.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

const MESSAGES = [{ role: 'user', content: 'Count.' }]
const chat = () =>
  server.call<{ usage: { completion_tokens: number } }>('/v1/chat/completions', {
    model: 'trainyard/tiny-random',
    messages: MESSAGES,
    max_tokens: 4,
    ignore_eos: true,
  })

/** Sends a request for a long stream and reads nothing of it. */
function askAndStall(): Socket {
  const { hostname, port } = new URL(server.url)
  const body = JSON.stringify({
    model: 'trainyard/tiny-random',
    messages: MESSAGES,
    ...{ n: CHOICES, max_tokens: TOKENS, ignore_eos: true, stream: true, logprobs: true, top_logprobs: 20 },
  })
  const socket = connect(Number(port), hostname)
  socket.pause()
  socket.on('error', () => undefined)
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.apiKey}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
  return socket
}

const rssMb = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024

async function engineCounts(): Promise<Readonly<Record<string, number>>> {
  const text = await (await server.fetch('/metrics')).text()
  const of = (name: string) => Number(new RegExp(`^vllm:num_requests_${name}\\{.*\\} (\\d+)$`, 'm').exec(text)?.[1])
  return { running: of('running'), waiting: of('waiting') }
}

describe('streams that nobody reads', { timeout: 280_000 }, () => {
  it('free their slots, hold little, disturb nobody, and are whole for who reads late', async () => {
    const beforeMb = rssMb()
    const sockets = Array.from({ length: STREAMS }, askAndStall)
    await until(async () => (await engineCounts())['running'] !== 0, 'streams that run')
    // others are served beside them
    expect((await chat()).usage.completion_tokens).toBe(4)
    let mostMb = 0
    await until(async () => {
      mostMb = Math.max(mostMb, rssMb())
      const { running, waiting } = await engineCounts()
      return running === 0 && waiting === 0
    }, 'an engine that is free again')
    expect((await chat()).usage.completion_tokens).toBe(4)
    console.log(`server: ${Math.round(beforeMb)} MB before, ${Math.round(mostMb)} MB at most`)
    expect(mostMb - beforeMb).toBeLessThan(MOST_MORE_MB)

    const [late, ...gone] = sockets
    for (const socket of gone) socket.destroy()
    let text = ''
    late?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    late?.resume()
    await until(() => text.includes('data: [DONE]'), 'the end of the stream')
    expect(text.startsWith('HTTP/1.1 200')).toBe(true)
    expect(text.match(/"finish_reason":"length"/g)).toHaveLength(CHOICES)
    late?.destroy()
  })
})
