/**
 * llama.cpp's own server as the peer of `loads/serve-http.js`: same model at 8 bits, same requests, two threads.
 *
 * A program the reader builds or installs, never a dependency: `npm run bench -- serve --against PATH`, or `auto` for
 * `llama-server` on the search path or in `.cache/bench`.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { MODEL, Q8_MODEL } from './ours.js'
import { ensureQ8Gguf } from './q8-gguf.js'

const LOCAL = path.resolve(import.meta.dirname, '../../../.cache/bench/llama-server')

/** The program that `--against` names, or null. */
export function findLlamaServer(against) {
  if (against === undefined) return null
  if (against !== 'auto') return path.resolve(against)
  if (existsSync(LOCAL)) return LOCAL
  try {
    return execFileSync('which', ['llama-server'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return null
  }
}

/** Starts it with as many slots as ours has, and waits until it is ready. */
export async function startLlamaServer(program, { sequences, contextTokens }) {
  const model = await ensureQ8Gguf(MODEL, Q8_MODEL)
  const port = await freePort()
  const sizes = ['--parallel', sequences, '--ctx-size', contextTokens, '--kv-unified']
  const args = ['--model', model, '--port', port, '--threads', 2, '--threads-http', 2, '--jinja', ...sizes]
  const child = spawn(program, args.map(String), { stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors = (errors + chunk).slice(-4000)
  })
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`${program} ended with ${child.exitCode ?? child.signalCode}\n${errors}`)
    }
    const isReady = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  return {
    url,
    key: 'none',
    model: 'peer',
    child,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
    },
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}
