/**
 * A proxy before a database that does to connections what networks do: it cuts them at a chosen statement, lets nothing through while both sides
 * think that they are connected, and refuses. It knows bytes alone, and finds a statement by its text, also where that was prepared before.
 */
import { once } from 'node:events'
import { createConnection, createServer, type Server, type Socket } from 'node:net'

/** Where a connection is cut: before the database has the statement, or when it has answered and nobody hears it. */
export interface Cut {
  readonly when: 'before' | 'after'
  /** Bytes of the client, as text, and the texts of the prepared statements that they name. Asked once for each piece that arrives. */
  readonly at: (statement: string) => boolean
}

export interface TcpProxy {
  readonly port: number
  /** What happens to everything; `frozen`: bytes wait, new connections are taken and hear nothing. */
  set(mode: 'passing' | 'frozen' | 'refusing'): Promise<void>
  /** The next one that fits, once. Null: none. */
  cut: Cut | null
  /** How many connections were cut at a statement. */
  readonly cuts: number
  /** Ends every connection that there is. */
  cutAll(): void
  stop(): Promise<void>
}

/** The address of a test's database by way of the proxy. */
export const throughProxy = (address: string, { port }: Pick<TcpProxy, 'port'>): string =>
  address.replace(/@\/(\w+)\?.*/, `@127.0.0.1:${port}/$1`)

/** @param target a port of this machine, or the path of a socket */
export async function startTcpProxy(target: number | string): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>()
  let isFrozen = false
  let server: Server | null = null
  let port = 0

  function accept(client: Socket): void {
    const path = typeof target === 'string' ? { path: target } : { port: target, host: '127.0.0.1' }
    const database = createConnection(path)
    const pair = [client, database] as const
    pairs.add(pair)
    const textOf = createReader()
    let isAnswerLost = false
    const end = (): void => {
      pairs.delete(pair)
      client.destroy()
      database.destroy()
    }
    for (const socket of pair) socket.on('error', end).on('close', end)
    if (isFrozen) for (const socket of pair) socket.pause()
    client.on('data', (bytes) => {
      const { cut } = proxy
      const text = textOf(bytes)
      if (cut?.at(text) === true) {
        proxy.cut = null
        state.cuts += 1
        if (cut.when === 'before') return end()
        isAnswerLost = true
      }
      database.write(bytes)
    })
    database.on('data', (bytes) => {
      if (isAnswerLost) end()
      else client.write(bytes)
    })
  }

  async function listen(): Promise<void> {
    const next = createServer(accept).listen(port, '127.0.0.1')
    await once(next, 'listening')
    const address = next.address()
    port = typeof address === 'object' && address !== null ? address.port : 0
    server = next
  }

  async function close(): Promise<void> {
    const ending = server
    server = null
    if (ending === null) return
    const closed = once(ending, 'close')
    ending.close()
    proxy.cutAll()
    await closed
  }

  const state = { cuts: 0 }
  const proxy: TcpProxy = {
    get port() {
      return port
    },
    get cuts() {
      return state.cuts
    },
    cut: null,
    set: async (mode) => {
      isFrozen = mode === 'frozen'
      for (const socket of [...pairs].flat()) {
        if (isFrozen) socket.pause()
        else socket.resume()
      }
      if (mode === 'refusing') await close()
      else if (server === null) await listen()
    },
    cutAll: () => {
      for (const socket of [...pairs].flat()) socket.destroy()
    },
    stop: close,
  }
  await listen()
  return proxy
}

/** Reads one connection: a prepared statement says its text once, behind its name, and later its name alone. */
function createReader(): (bytes: Buffer) => string {
  const prepared = new Map<string, string>()
  return (bytes) => {
    const parts = bytes.toString('latin1').split('\0')
    const texts: string[] = []
    for (const [index, part] of parts.entries()) {
      const name = /ty_\d+$/.exec(part)?.[0]
      if (name === undefined) continue
      const next = parts[index + 1] ?? ''
      if (next === '') texts.push(prepared.get(name) ?? '')
      else prepared.set(name, next)
    }
    return [...parts, ...texts].join('\0')
  }
}
