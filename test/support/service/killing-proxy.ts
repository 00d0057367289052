/**
 * Stands between workers and a server, and kills one of them at a point of their protocol: when a request comes, before anybody has seen
 * it, or when the server has answered and the worker does not know yet. The server may come back under another address.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, request as sendRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** A kind of request, and when somebody dies by it. */
export interface KillPoint {
  readonly victim: 'worker' | 'server'
  /** `claims`, or what comes behind the job's id: `input`, `events`, `files`; empty for the job itself. */
  readonly at: string
  readonly when: 'before' | 'after'
}

export interface KillingProxy {
  readonly url: string
  /** Where the server is now; null: requests are cut. */
  target: string | null
  /** The next request of this kind kills. */
  armed: KillPoint | null
  /** How many events each job may still post; others wait. Null: any number. */
  budget: Map<string, number> | null
  close(): void
}

/** @param kill ends the victim at once; resolves when it is dead */
export async function startKillingProxy(kill: (point: KillPoint) => Promise<void>): Promise<KillingProxy> {
  const server: Server = createServer(
    (request, response) => void handle(request, response).catch(() => response.destroy()),
  )
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? '/'
    const { at, jobId } = partsOf(url)
    const body = await buffer(request)
    if (at === 'events') {
      while (proxy.budget !== null && (proxy.budget.get(jobId) ?? 0) <= 0) {
        if (response.destroyed || request.socket.destroyed) return
        await sleep(20)
      }
    }
    const point = proxy.armed?.at === at ? proxy.armed : null
    if (point !== null) proxy.armed = null
    if (point?.when === 'before') {
      await kill(point)
      return void response.destroy()
    }
    const answer = await forward(request, url, body)
    // one that was refused made no step
    if (at === 'events' && answer.status === 200) proxy.budget?.set(jobId, (proxy.budget.get(jobId) ?? 0) - 1)
    if (point !== null) {
      await kill(point)
      return void response.destroy()
    }
    response.writeHead(answer.status, answer.headers).end(answer.body)
  }

  async function forward(request: IncomingMessage, url: string, body: Buffer) {
    const { target } = proxy
    if (target === null) throw new Error('the server is away')
    return new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }>((resolve, reject) => {
      const { host: _host, 'transfer-encoding': _coding, ...headers } = request.headers
      const sent = sendRequest(new URL(url, target), {
        method: request.method ?? 'GET',
        headers: { ...headers, 'content-length': String(body.length) },
        agent: false,
      })
      sent.once('error', reject)
      sent.once('response', (answer) => {
        const { connection: _c, 'transfer-encoding': _t, 'keep-alive': _k, ...kept } = answer.headers
        buffer(answer).then((bytes) => resolve({ status: answer.statusCode ?? 0, headers: kept, body: bytes }), reject)
      })
      sent.end(body)
    })
  }

  const proxy: KillingProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target: null,
    armed: null,
    budget: null,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
  return proxy
}

function partsOf(url: string): { readonly at: string; readonly jobId: string } {
  const path = new URL(url, 'http://host').pathname
  if (path === '/internal/worker/claims') return { at: 'claims', jobId: '' }
  const [, jobId = '', at = ''] = /^\/internal\/worker\/jobs\/([^/]+)(?:\/([\w-]+))?/.exec(path) ?? []
  // a file of the base model is another point than their list
  return {
    at: /\/base-model\/./.test(path) ? 'base-model-file' : jobId === '' ? 'other' : at === '' ? 'job' : at,
    jobId,
  }
}
