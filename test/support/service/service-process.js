/**
 * Starts the built server as a user would and talks to it over HTTP. Used by end-to-end tests, demos and whole-service benches.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'

const ROOT = path.resolve(import.meta.dirname, '../../..')

/**
 * Starts `trainyard serve` on a free port with a data directory of its own.
 *
 * @param {{ args?: string[], env?: NodeJS.ProcessEnv, keptDir?: string }} [options] further flags of `serve`, environment
 *   variables, and a data directory that is used as it is and kept
 * @returns the address, the key, the process, the seconds until ready, and `stop()` which removes the data directory
 */
export async function startService({ args = [], env = {}, keptDir } = {}) {
  const dataDir = keptDir ?? mkdtempSync(path.join(os.tmpdir(), 'trainyard-test-'))
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [path.join(ROOT, 'bin/trainyard.js'), 'serve', '--json', '--port', '0', '--data-dir', dataDir, ...args],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } },
  )
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors = (errors + chunk).slice(-4000)
  })
  const ready = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) => resolve(JSON.parse(line)))
    child.once('exit', (code) => reject(new Error(`serve ended with ${code}\n${errors}`)))
  })
  const key = readFileSync(ready.api_key_file, 'utf8').trim()
  const api = createApi(ready.url, key)
  return {
    url: ready.url,
    key,
    child,
    api,
    dataDir,
    readyMs: performance.now() - startedAt,
    async stop() {
      child.removeAllListeners('exit')
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      if (keptDir === undefined) rmSync(dataDir, { recursive: true, force: true, maxRetries: 20 })
    },
  }
}

/** A few calls of the HTTP API; any answer but 200 is an error that shows the body. */
export function createApi(url, key) {
  async function call(method, route, body, headers = {}) {
    const isRaw = body instanceof FormData
    const response = await fetch(`${url}${route}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined || isRaw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${method} ${route}: ${response.status} ${text.slice(0, 600)}`)
    return text === '' ? null : JSON.parse(text)
  }

  return {
    call,
    createModel: (name, baseModel) =>
      call('POST', '/v1/preview/models', { project: 'demo', name, base_model: baseModel, return_existing: true }),
    chat: (body) => call('POST', '/v1/chat/completions', body),
    async uploadRows(rows) {
      const form = new FormData()
      form.set('purpose', 'fine-tune')
      form.set('file', new Blob([rows.map((row) => JSON.stringify(row)).join('\n')]), 'train.jsonl')
      return (await call('POST', '/v1/files', form)).id
    },
    /** Polls until the job's terminal event, as the hosted service's client does; returns every event. */
    async waitForJob(id, onEvent = () => {}) {
      const events = []
      let after
      for (;;) {
        const query = after === undefined ? '' : `&after=${after}`
        const page = await call('GET', `/v1/preview/training-jobs/${id}/events?limit=100${query}`)
        for (const event of page.data) {
          events.push(event)
          onEvent(event)
          after = event.id
          if (event.type === 'training_failed') throw new Error(`job ${id} failed: ${event.data.error_message}`)
          if (event.type === 'training_ended') return events
        }
        await new Promise((resolve) => setTimeout(resolve, 250))
      }
    },
  }
}

/** Runs `task` on every item, at most `width` at a time, and keeps the order. */
export async function mapConcurrently(items, width, task) {
  const results = new Array(items.length)
  let next = 0
  await Promise.all(
    Array.from({ length: Math.min(width, items.length) }, async () => {
      while (next < items.length) {
        const index = next++
        results[index] = await task(items[index], index)
      }
    }),
  )
  return results
}

/** The GGUF that `npm run model:smollm2` fetches, or null. */
export async function findSmolLm2() {
  const { readdirSync } = await import('node:fs')
  const folder = path.join(ROOT, '.cache/models')
  try {
    const name = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((file) =>
      /smollm2.*\.gguf$/i.test(file),
    )
    return name === undefined ? null : path.join(folder, name)
  } catch {
    return null
  }
}
