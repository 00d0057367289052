/**
 * A proxy before an HTTP server that does to chosen requests what networks and busy servers do.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** What happens to a request; null: it passes. */
export type Fault =
  | { readonly kind: 'answer'; readonly status: number; readonly body?: string }
  /** The connection ends before the server has seen the request. */
  | { readonly kind: 'refuse' }
  /** The server does it, and its answer is lost. */
  | { readonly kind: 'lose answer' }
  /** The connection ends within the body of the answer. */
  | { readonly kind: 'cut'; readonly afterBytes: number }
  /** The connection ends within the body of the request, of which the server has had a part. */
  | { readonly kind: 'cut upload'; readonly afterBytes: number }
  /** The answer comes, in halves of what is left, and a pause before each. */
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** Bytes of the answer are changed. */
  | { readonly kind: 'damage' }
  /** Nothing ever comes. */
  | { readonly kind: 'silence' }

export interface FaultyProxy {
  readonly url: string
  /** Every request so far, `METHOD path`. */
  readonly seen: readonly string[]
  /** Asked for each request, with how many came before it. */
  choose(fault: (request: IncomingMessage, count: number) => Fault | null): void
  stop(): Promise<void>
}

async function trickle(from: IncomingMessage, answer: ServerResponse, delayMs: number): Promise<void> {
  for await (const chunk of from as AsyncIterable<Buffer>) {
    for (let rest = chunk; rest.length > 0; ) {
      await sleep(delayMs)
      const part = rest.subarray(0, Math.ceil(rest.length / 2))
      rest = rest.subarray(part.length)
      answer.write(part)
    }
  }
  answer.end()
}

export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target)
  const seen: string[] = []
  let choose: (request: IncomingMessage, count: number) => Fault | null = () => null

  function pass(incoming: IncomingMessage, answer: ServerResponse, fault: Fault | null): void {
    const { method, url, headers } = incoming
    const outgoing = request({ hostname, port, method, path: url, headers }, (from) => {
      if (fault?.kind === 'lose answer') {
        from.resume()
        from.once('end', () => answer.destroy())
        return
      }
      answer.writeHead(from.statusCode ?? 500, from.headers)
      if (fault?.kind === 'slow') return void trickle(from, answer, fault.delayMs)
      let left = fault?.kind === 'cut' ? fault.afterBytes : Number.POSITIVE_INFINITY
      from.on('data', (chunk: Buffer) => {
        const part = chunk.subarray(0, left)
        left -= part.length
        answer.write(fault?.kind === 'damage' ? Buffer.from(part).fill('#') : part, () => {
          if (left <= 0) answer.destroy()
        })
      })
      from.once('end', () => {
        if (left > 0) answer.end()
      })
    })
    outgoing.once('error', () => answer.destroy())
    if (fault?.kind === 'cut upload') {
      incoming.once('data', (chunk: Buffer) => {
        outgoing.write(chunk.subarray(0, fault.afterBytes), () => {
          outgoing.destroy()
          incoming.socket.destroy()
        })
      })
      incoming.once('end', () => outgoing.end())
    } else incoming.pipe(outgoing)
  }

  const server = createServer((incoming, answer) => {
    const fault = choose(incoming, seen.length)
    seen.push(`${incoming.method} ${incoming.url}`)
    if (fault?.kind === 'refuse') incoming.socket.destroy()
    else if (fault?.kind === 'silence') incoming.resume()
    else if (fault?.kind === 'answer') {
      incoming.resume()
      incoming.once('end', () => answer.writeHead(fault.status).end(fault.body ?? ''))
    } else pass(incoming, answer, fault)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    seen,
    choose: (fault) => {
      choose = fault
    },
    stop: async () => {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}
