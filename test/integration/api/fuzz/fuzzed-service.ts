/**
 * A server in a process of its own that is asked mutated requests: they go to it as they stand, and each answer is judged. Nothing may
 * answer 5xx, show a key, a path of this machine or a stack, or end the service.
 *
 * `FUZZ_REQUESTS` asks for more than the few of a test run, `FUZZ_SEED` repeats one: a failure names its seed and request.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Route } from '#contract/endpoints/table.js'
import { startService } from '../../../support/service/service-process.js'
import { until } from '../../../support/until.js'
import type { MutatedRequest } from './mutated-requests.js'

const COUNT = Number(process.env['FUZZ_REQUESTS'] ?? 0)
export const SEED = process.env['FUZZ_SEED'] ?? 'fuzz'
/** Requests of a test: the few of every day, or its share of what the run is asked for. */
export const countOf = (daily: number, share = 1): number => (COUNT === 0 ? daily : Math.ceil(COUNT * share))
export const IN_FLIGHT = 8
const TELLER = join(import.meta.dirname, '../../../support/stand-ins/tell-resources.cjs')

export interface Answer {
  /** 0: given up, nothing had come. */
  readonly status: number
  readonly bytes: Buffer
}

export interface Held {
  readonly server: Record<'rssMb' | 'descriptors' | 'heapMb' | 'handles', number>
  /** Null: there is none. */
  readonly engine: Record<'rssMb' | 'descriptors', number> | null
  readonly processes: number
}

export type FuzzedService = Awaited<ReturnType<typeof startFuzzed>>

export async function startFuzzed(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-fuzz-'))
  const resourceFile = join(folder, 'resources')
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT })
  const service = await startService({
    args: [...args, '--log-level', 'error'],
    env: { ...env, NODE_OPTIONS: `--require ${TELLER}`, TELL_RESOURCES: resourceFile },
  })
  const seen = new Map<number, number>()
  const routes = new Map<string, { asked: number; answered: number; ms: number }>()

  /**
   * As it stands: no client in between that would mend the address or refuse a body.
   *
   * @param patienceMs after which it is given up, as a client that goes away; null: never
   */
  function send(wanted: MutatedRequest, key: string | null, patienceMs: number | null = null): Promise<Answer> {
    const { method, address, body, type } = wanted
    const { hostname, port } = new URL(service.url)
    const headers = {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(type === undefined || type === '' ? {} : { 'content-type': type }),
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
      ...wanted.headers,
    }
    return new Promise((resolve, reject) => {
      const sent = request({ hostname, port, agent, method, path: address, headers }, (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('end', () => {
          clearTimeout(timer)
          resolve({ status: response.statusCode ?? 0, bytes: Buffer.concat(parts) })
        })
        response.on('error', reject)
      })
      const timer = setTimeout(() => {
        if (patienceMs === null) return
        resolve({ status: 0, bytes: Buffer.alloc(0) })
        sent.destroy()
      }, patienceMs ?? 0)
      sent.on('error', (error) => {
        clearTimeout(timer)
        // a kept connection that the server has closed for being idle, as happens when this process was held up
        if (sent.reusedSocket) resolve(send(wanted, key, patienceMs))
        else reject(new Error(told(wanted), { cause: error }))
      })
      sent.end(body)
    })
  }

  /** Sends it and judges the answer. @param unavailable codes that 503 may have */
  async function ask(
    route: Route,
    sent: MutatedRequest,
    {
      i,
      key,
      patienceMs,
      unavailable = [],
    }: {
      readonly i: number
      readonly key: string | null
      readonly patienceMs?: number
      readonly unavailable?: readonly string[]
    },
  ): Promise<Answer> {
    const startedAt = performance.now()
    const answer = await send(sent, key, patienceMs)
    const { status } = answer
    const text = answer.bytes.toString()
    const name = `${route.method} ${route.path}`
    const { asked, answered, ms } = routes.get(name) ?? { asked: 0, answered: 0, ms: 0 }
    const isAnswered = status >= 200 && status < 300
    routes.set(name, {
      asked: asked + 1,
      answered: answered + (isAnswered ? 1 : 0),
      ms: ms + performance.now() - startedAt,
    })
    seen.set(status, (seen.get(status) ?? 0) + 1)
    const what = `seed ${SEED}, request ${i}: ${told(sent)}\n${status} ${text.slice(0, 500)}`
    // 501 names what is known and not here; nothing else of the server's may be wrong
    const isUnavailable = status === 503 && unavailable.some((code) => text.includes(code))
    expect(status === 501 || isUnavailable || status < 500, what).toBe(true)
    for (const secret of [service.key, service.dataDir, '    at ', 'node_modules'])
      expect(text.includes(secret), what).toBe(false)
    return answer
  }

  /** Resident megabytes and descriptors of the server and of its engine, and what the server's heap holds after a collection. */
  async function resources(): Promise<Held> {
    const pid = service.child.pid ?? 0
    const lines = () => (existsSync(resourceFile) ? readFileSync(resourceFile, 'utf8').trim().split('\n') : [])
    const before = lines().length
    process.kill(pid, 'SIGUSR2')
    const toldLine = await until(() => lines().length > before && lines().at(-1), 'the server telling what it holds')
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
    const engine = children.find((child) =>
      readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('dist/bundles/inference/'),
    )
    const of = (process: string | number) => ({
      rssMb: Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process}/status`, 'utf8'))?.[1]) / 1024),
      descriptors: readdirSync(`/proc/${process}/fd`).length,
    })
    const held = JSON.parse(toldLine) as { heapMb: number; handles: number }
    return {
      server: { ...of(pid), ...held },
      engine: engine === undefined ? null : of(engine),
      processes: children.length,
    }
  }

  return {
    service,
    seen,
    routes,
    send,
    ask,
    resources,
    /** Routes that took the longest, and those that never answered as asked. */
    summary: () => {
      const rows = [...routes].sort((a, b) => b[1].ms - a[1].ms)
      return JSON.stringify({
        seen: [...seen].sort((a, b) => a[0] - b[0]),
        seconds: rows.slice(0, 5).map(([name, { ms }]) => [name, Math.round(ms) / 1000]),
        neverAnswered: rows.filter(([, { answered }]) => answered === 0).map(([name]) => name),
      })
    },
    async stop(): Promise<void> {
      agent.destroy()
      await service.stop()
      rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
    },
  }
}

/** What is held at the end is what was held half way, but for what grows with the database and where the collector stands. */
export function expectFlat(half: Held, end: Held): void {
  const what = JSON.stringify([half, end])
  expect(end.server.heapMb, what).toBeLessThan(half.server.heapMb + 64)
  expect(end.server.rssMb, what).toBeLessThan(half.server.rssMb + 256)
  expect(end.server.descriptors, what).toBeLessThan(half.server.descriptors + 64)
  expect(end.engine?.rssMb ?? 0, what).toBeLessThan((half.engine?.rssMb ?? 0) + 256)
  expect(end.engine?.descriptors ?? 0, what).toBeLessThan((half.engine?.descriptors ?? 0) + 64)
}

/** A request as a failure shows it; bytes in base64. */
function told({ method, address, body, headers }: MutatedRequest): string {
  const text =
    typeof body === 'string'
      ? body.slice(0, 1000)
      : Buffer.from(body ?? [])
          .toString('base64')
          .slice(0, 8000)
  return `${method} ${address.slice(0, 300)} ${headers === undefined ? '' : JSON.stringify(headers)} ${text}`
}
