/**
 * What another client notices while thousands of connections drip bodies without a key, or follow streams of events with read keys: how soon its chat begins and health answers,
 * and what is held two seconds after the crowd has gone. The crowd is a process of its own and comes from 127.0.0.1, the other client from 127.0.0.2 (Linux).
 *
 *     node test/bench/loads/crowds.js drips 4096 30       kind of crowd (drips, streams), connections, seconds
 */
import { fork } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startService } from '../../support/service/service-process.js'
import { processorSeconds, quantile } from '../support/http-load.js'

const CHAT = {
  messages: [{ role: 'user', content: 'hi' }],
  max_tokens: 4,
  stream: true,
}

/** Asks from 127.0.0.2 on a connection of its own. @returns milliseconds to the first byte of the body, or the error's code */
function ask(service, path, body, key = service.key) {
  const { port } = new URL(service.url)
  const startMs = performance.now()
  return new Promise((resolve) => {
    const headers = { ...(key === null ? {} : { authorization: `Bearer ${key}` }), 'content-type': 'application/json' }
    const options = { host: '127.0.0.1', port, path, headers, localAddress: '127.0.0.2', agent: new Agent() }
    const sent = request({ ...options, method: body === undefined ? 'GET' : 'POST' }, (answer) => {
      let firstMs = null
      let text = ''
      answer.on('data', (part) => {
        firstMs ??= performance.now() - startMs
        text += part
      })
      answer.on('end', () => resolve({ ms: firstMs ?? performance.now() - startMs, status: answer.statusCode, text }))
    })
    sent.on('error', (error) => resolve({ ms: performance.now() - startMs, status: error.code }))
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** Keeps so many connections up, in a process of its own, that each send `head` and, where they drip, then a byte a second. */
function startCrowd(service, head, { count, isDripping }) {
  const { port } = new URL(service.url)
  const child = fork(import.meta.filename, ['crowd', JSON.stringify({ port, head, count, isDripping })])
  let counts = { opened: 0, open: 0 }
  child.on('message', (message) => {
    counts = message
  })
  return { counts: () => counts, end: () => child.kill('SIGKILL') }
}

function beCrowd({ port, head, count, isDripping }) {
  let opened = 0
  const sockets = new Set()
  const open = () => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.1' })
    sockets.add(socket)
    opened += 1
    socket.on('connect', () => socket.write(head))
    socket.on('data', () => undefined)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      sockets.delete(socket)
      setTimeout(open, 100)
    })
  }
  for (let i = 0; i < count; i += 1) open()
  setInterval(() => {
    if (isDripping) for (const socket of sockets) socket.write('x')
    process.send({ opened, open: sockets.size })
  }, 1000)
}

function socketsOf(pid) {
  return readdirSync(`/proc/${pid}/fd`).filter((name) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length
}

async function keysOf(service, count) {
  const keys = []
  for (let i = 0; i < count; i += 1) {
    const { text } = await ask(service, '/v1/preview/keys', { project: 'crowd', scope: 'read' })
    keys.push(JSON.parse(text).key)
  }
  return keys
}

const secondsOf = (service) => Object.values(processorSeconds(service.child.pid)).reduce((sum, part) => sum + part, 0)

async function run(kind, count, seconds) {
  const service = await startService({ args: ['--train-workers', '0'] })
  try {
    await ask(service, '/v1/chat/completions', CHAT)
    const before = socketsOf(service.child.pid)
    const [key] = kind === 'streams' ? await keysOf(service, 1) : []
    const head =
      kind === 'drips'
        ? 'POST /v1/preview/sessions/exchange HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{'
        : `GET /v1/preview/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer ${key}\r\n\r\n`
    const startSeconds = secondsOf(service)
    const crowd = startCrowd(service, head, { count, isDripping: kind === 'drips' })
    const answers = { chat: [], health: [] }
    const endMs = performance.now() + seconds * 1000
    while (performance.now() < endMs) {
      answers.health.push(await ask(service, '/v1/health', undefined, null))
      answers.chat.push(await ask(service, '/v1/chat/completions', CHAT))
      await sleep(100)
    }
    const held = socketsOf(service.child.pid) - before
    const { opened, open } = crowd.counts()
    console.log(`${opened} connections were opened, ${open} stand at the crowd, ${held} at the server`)
    console.log(`server: ${((secondsOf(service) - startSeconds) / seconds).toFixed(2)} cores`)
    crowd.end()
    await sleep(2000)
    console.log(`two seconds later the server holds ${socketsOf(service.child.pid) - before} more than before`)
    for (const [name, all] of Object.entries(answers)) {
      const good = all.filter(({ status }) => status === 200).map(({ ms }) => ms)
      const others = all.filter(({ status }) => status !== 200).map(({ status }) => status)
      const at = (part) => quantile(good, part).toFixed(0)
      console.log(
        `${name}: ${good.length} answered, p50 ${at(0.5)}, p99 ${at(0.99)}, most ${Math.max(...good).toFixed(0)} ms; others: ${others.join(' ') || 'none'}`,
      )
    }
  } finally {
    await service.stop()
  }
}

const [kind = 'drips', count = '4096', seconds = '30'] = process.argv.slice(2)
if (kind === 'crowd') beCrowd(JSON.parse(count))
else await run(kind, Number(count), Number(seconds))
