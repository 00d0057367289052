/**
 * Load over HTTP for benches: a cheap client, health asked beside it, and what the server holds.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** Runs `task` while health is asked every few milliseconds. */
export async function besideHealth(call, task) {
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

/**
 * Node's own client: `fetch` costs more than the server does.
 *
 * @param sockets requests at once; more wait here, not at the server
 */
export function createClient({ url, key }, sockets = 512) {
  const agent = new Agent({ keepAlive: true, maxSockets: sockets })
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

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0
}

export function memoryMb(service, field) {
  const match = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${service.child.pid}/status`, 'utf8'))
  return match === null ? 0 : Math.round(Number(match[1]) / 1024)
}

/** Processor seconds so far of a server's threads and of its children, by part. */
export function processorSeconds(pid) {
  const seconds = {}
  const add = (part, stat) => {
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // clock ticks in user and kernel mode, 100 a second: proc(5)
    seconds[part] = (seconds[part] ?? 0) + (Number(fields[11]) + Number(fields[12])) / 100
  }
  const read = (path) => {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return null // it has ended
    }
  }
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = read(`/proc/${pid}/task/${thread}/stat`)
    if (stat !== null) add(Number(thread) === pid ? "the server's event loop" : "the server's other threads", stat)
    for (const child of (read(`/proc/${pid}/task/${thread}/children`) ?? '').split(' ').filter(Boolean)) {
      const childStat = read(`/proc/${child}/stat`)
      const command = read(`/proc/${child}/cmdline`) ?? ''
      if (childStat !== null) add(command.includes('/inference/') ? 'the engine host' : 'training', childStat)
    }
  }
  return seconds
}
