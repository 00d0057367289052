/**
 * What one connection may ask of the server, by raw sockets: one request at a time, an end that frees everything, and the limits.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import {
  type ConnectionHandle,
  type ConnectionLimits,
  type CutReason,
  type GovernOptions,
  governConnections,
} from '#service/http/connections/connections.js'
import { loopTurns, until } from '../../../../support/until.js'

interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly connection: ConnectionHandle
  isOver: boolean
}

interface Client {
  readonly socket: Socket
  text(): string
  isClosed(): boolean
}

let server: Server
let stop: () => void
let started: Exchange[]
let cuts: CutReason[]
let clients: Socket[]

beforeEach(() => {
  started = []
  cuts = []
  clients = []
})
afterEach(() => {
  for (const client of clients) client.destroy()
  stop()
  server.close()
  server.closeAllConnections()
})

async function serve(
  limits: Partial<ConnectionLimits> = {},
  handle: (exchange: Exchange) => void = () => undefined,
  more: Pick<GovernOptions, 'asksForKey'> = {},
): Promise<void> {
  server = createServer({ requireHostHeader: false })
  stop = governConnections(
    server,
    (incoming, outgoing, connection) => {
      const exchange = { incoming, outgoing, connection, isOver: false }
      outgoing.once('close', () => {
        exchange.isOver = true
      })
      started.push(exchange)
      handle(exchange)
    },
    {
      limits: { ...SERVICE_DEFAULTS, ...limits },
      onCut: (reason, count) => cuts.push(...Array<CutReason>(count).fill(reason)),
      ...more,
    },
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
}

function open(bytes = '', localAddress = '127.0.0.1'): Client {
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', localAddress })
  clients.push(socket)
  let text = ''
  let isClosed = false
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    isClosed = true
  })
  if (bytes !== '') socket.write(bytes)
  return { socket, text: () => text, isClosed: () => isClosed }
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const paths = () => started.map(({ incoming }) => incoming.url)
const answer = ({ outgoing, incoming }: Exchange) => void outgoing.end(`<${incoming.url}>`)
const exchangeAt = async (index: number) => await until(() => started[index], `request ${index}`)

describe('requests that are sent ahead', () => {
  it('start one at a time, in order, while other connections go on', async () => {
    await serve()
    const { text } = open(get('/1') + get('/2') + get('/3'))
    answer(
      await exchangeAt(0).then(async (first) => {
        await loopTurns()
        expect(paths()).toEqual(['/1'])
        return first
      }),
    )
    const other = open(get('/other'))
    await until(() => started.length === 3, 'the second and the other request')
    await loopTurns()
    expect(new Set(paths())).toEqual(new Set(['/1', '/2', '/other']))
    for (const exchange of started.slice(1)) answer(exchange)
    answer(await exchangeAt(3))
    await until(() => text().includes('</3>'), 'the last answer')
    expect(text().match(/<.\d>/g)).toEqual(['</1>', '</2>', '</3>'])
    await until(() => other.text().includes('</other>'), "the other connection's answer")
  })

  it('are dropped with their connection, and what runs is told', async () => {
    await serve()
    const { socket } = open(get('/run').repeat(80))
    const running = await exchangeAt(0)
    running.outgoing.write('some')
    await until(() => socket.bytesRead > 0, 'the beginning of the answer')
    socket.destroy()
    await until(() => running.isOver, 'the end of what ran')
    await loopTurns()
    expect(started).toHaveLength(1)
  })

  it('come with their bodies, however long, in their turn', async () => {
    const bodies: string[] = []
    await serve({}, async ({ incoming, outgoing }) => {
      let length = 0
      for await (const part of incoming) length += (part as Buffer).length
      bodies.push(`${incoming.url} ${length}`)
      outgoing.end('done')
    })
    const post = (path: string, length: number) =>
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(length)}`
    const { text } = open(get('/0') + post('/1', 3_000_000) + post('/2', 10) + post('/3', 500_000) + get('/4'))
    await until(() => (text().match(/done/g) ?? []).length === 5, 'five answers')
    expect(bodies).toEqual(['/0 0', '/1 3000000', '/2 10', '/3 500000', '/4 0'])
  })

  it('are all answered, though many thousand come in one write', async () => {
    await serve({}, answer)
    const { text } = open(get('/').repeat(20_000))
    await until(() => (text().match(/<\/>/g) ?? []).length === 20_000, 'every answer')
    expect(cuts).toEqual([])
  })

  it('let what others ask between them', async () => {
    let isFlooded = false
    await serve({}, (exchange) => {
      answer(exchange)
      if (exchange.incoming.url === '/flood' && started.length === 100) isFlooded = true
    })
    const flood = open(get('/flood').repeat(1500))
    await until(() => isFlooded, 'a flood')
    const other = open(get('/other'))
    await until(() => other.text().includes('</other>'), 'the answer beside the flood')
    await until(() => (flood.text().match(/<\/flood>/g) ?? []).length === 1500, 'the whole flood')
    expect(paths().indexOf('/other')).toBeLessThan(1500)
  })

  it('beyond the limit end the connection, and what it ran', async () => {
    await serve({ maxPipelinedRequests: 3 })
    const fits = open(get('/fits').repeat(4))
    await exchangeAt(0)
    const { isClosed } = open(get('/many').repeat(5))
    await until(isClosed, 'the end of a connection with too many')
    expect([cuts, fits.isClosed()]).toEqual([['too_many_pipelined_requests'], false])
    await until(() => started.find(({ incoming }) => incoming.url === '/many')?.isOver, 'the end of what it ran')
  })

  it('of many connections together are bounded, too', async () => {
    await serve({ maxPipelinedRequests: 2 })
    const open33 = Array.from({ length: 17 }, () => open(get('/').repeat(3)))
    await until(() => open33.some(({ isClosed }) => isClosed()), 'the end of one connection')
    await loopTurns()
    expect(cuts).toEqual(['too_many_pipelined_requests'])
  })
})

describe('what Node would answer by itself waits for its turn', () => {
  const heads: readonly (readonly [string, string, string])[] = [
    ['an unknown expectation', 'Expect: the-best\r\n', '417'],
    ['a request to upgrade', 'Connection: Upgrade\r\nUpgrade: websocket\r\n', '200'],
  ]
  it.each(heads)('%s', async (_name, header, status) => {
    await serve()
    const { text } = open(`${get('/1')}GET /2 HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`)
    const first = await exchangeAt(0)
    await loopTurns()
    expect(text()).toBe('')
    answer(first)
    if (status === '200') answer(await exchangeAt(1))
    await until(() => text().includes(` ${status} `) && text().split('HTTP/1.1').length === 3, 'both answers')
  })

  it('a body that waits for 100 Continue, and a HEAD', async () => {
    await serve()
    const expecting = 'POST /2 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n'
    const { socket, text } = open(`HEAD /1 HTTP/1.1\r\nHost: localhost\r\n\r\n${expecting}`)
    answer(await exchangeAt(0))
    const { outgoing, incoming } = await exchangeAt(1)
    await loopTurns()
    expect(text()).not.toContain('100 Continue')
    outgoing.writeContinue()
    await until(() => text().includes('100 Continue'), 'leave to send the body')
    socket.write('ok')
    for await (const part of incoming) outgoing.write(part)
    outgoing.end()
    await until(() => text().includes('ok'), 'the body')
    expect(text()).not.toContain('</1>')
  })
})

describe('connections', () => {
  it('make room for new ones: who has been idle longest goes, who runs stays', async () => {
    await serve({ maxConnections: 3 })
    const running = open(get('/run'))
    await exchangeAt(0)
    const [older, newer] = [open(), open()]
    await until(() => !older.socket.connecting && !newer.socket.connecting, 'two idle connections')
    await loopTurns()
    const late = open(get('/late'))
    await until(older.isClosed, 'the end of the oldest idle connection')
    answer(await exchangeAt(1))
    await until(() => late.text().includes('</late>'), 'the answer of the new one')
    expect([cuts, running.isClosed(), newer.isClosed()]).toEqual([['too_many_connections'], false, false])
  })

  it('are closed where all others run with a key', async () => {
    await serve({ maxConnections: 4 }, ({ connection, incoming }) => void connection.prove(incoming.url ?? ''))
    for (const path of ['/1', '/2', '/3', '/4']) open(get(path))
    await exchangeAt(3)
    const late = open(get('/5'))
    await until(late.isClosed, 'the end of one too many')
    expect([cuts, paths().sort()]).toEqual([['too_many_connections'], ['/1', '/2', '/3', '/4']])
  })

  it('whose bodies never end give way, those of the network with most first', async () => {
    await serve({ maxConnections: 24 }, ({ connection, incoming }) => {
      if (incoming.url === '/key') connection.prove('entity')
    })
    const dripping = 'POST /open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx'
    const first = open(dripping, '127.0.0.2')
    await exchangeAt(0)
    for (let i = 1; i <= 22; i += 1) open(dripping)
    await exchangeAt(16)
    const keyed = open(get('/key'), '127.0.0.3')
    await until(() => paths().includes('/key'), 'the request with a key')
    const late = Array.from({ length: 10 }, () => open(dripping))
    await until(() => cuts.length === 10, 'ten cuts')
    expect([first, keyed, ...late].map(({ isClosed }) => isClosed())).not.toContain(true)
    expect(started.filter(({ isOver }) => isOver)).toHaveLength(10)
  })

  it('that had shown a key give way where a body without one never ends', async () => {
    await serve({ maxConnections: 4 }, (exchange) => {
      if (exchange.incoming.url !== '/key') return
      exchange.connection.prove('entity')
      answer(exchange)
    })
    const dripping = 'POST /open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx'
    const held = Array.from({ length: 4 }, () => open(get('/key') + dripping))
    await until(() => paths().filter((path) => path === '/open').length === 4, 'four bodies that do not end')
    open(get('/late'))
    await until(() => paths().includes('/late'), 'the request of one more')
    expect([cuts, held.filter(({ isClosed }) => isClosed()).length]).toEqual([['too_many_connections'], 1])
  })

  it('that bring a body and no key are read a few at a time, the newest first, and with a key at once', async () => {
    await serve()
    const post = (path: string, more = '') =>
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${more}Content-Length: 5\r\n\r\nx`
    for (let i = 0; i < 16; i += 1) open(post('/first'))
    await exchangeAt(15)
    const waiting: Client[] = []
    for (const path of ['/older', '/gone', '/newer']) {
      waiting.push(open(post(path)))
      await until(() => waiting.at(-1)?.socket.connecting === false, 'a connection')
    }
    open(post('/elsewhere'), '127.0.0.2')
    open(post('/key', 'Authorization: Bearer x\r\n'))
    open(get('/bodyless'))
    await exchangeAt(18)
    expect(paths().slice(16).sort()).toEqual(['/bodyless', '/elsewhere', '/key'])
    waiting[1]?.socket.destroy()
    await loopTurns()
    for (const exchange of started.slice(0, 2)) exchange.outgoing.writeHead(408, { connection: 'close' }).end()
    await exchangeAt(20)
    expect(paths().slice(19)).toEqual(['/newer', '/older'])
  })

  it('that bring a header where no key is asked for wait like those without', async () => {
    await serve({}, undefined, { asksForKey: ({ url }) => url !== '/open' })
    const post = (path: string) =>
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: x\r\nContent-Length: 5\r\n\r\nx`
    for (let i = 0; i < 20; i += 1) open(post('/open'))
    await exchangeAt(15)
    for (let i = 0; i < 20; i += 1) open(post('/key'))
    await exchangeAt(35)
    expect(paths().filter((path) => path === '/open')).toHaveLength(16)
  })

  it("that turn out to be somebody's leave their turn to the next", async () => {
    await serve({}, ({ connection, incoming }) => {
      if (incoming.url === '/signed') connection.prove('entity')
    })
    const post = (path: string) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nx`
    for (let i = 0; i < 40; i += 1) open(post('/signed'))
    await exchangeAt(39)
  })

  it('of one entity are as many as are left', async () => {
    const proven: boolean[] = []
    await serve({ maxConnections: 16 }, ({ connection }) => void proven.push(connection.prove('entity')))
    for (let i = 1; i <= 12; i += 1) open(get(`/${i}`))
    await exchangeAt(11)
    expect(proven).toEqual([...Array<boolean>(8).fill(true), ...Array<boolean>(4).fill(false)])
  })
})

describe('answers that nobody reads', () => {
  const LARGE = Buffer.alloc(24 * 1024 ** 2)

  it('are cut when nothing of them is taken for long', async () => {
    await serve({ unreadMs: 50 }, ({ outgoing }) => void outgoing.end(LARGE))
    open(get('/')).socket.pause()
    await until(() => cuts.length > 0, 'a cut')
    expect(cuts).toEqual(['answer_not_read'])
    await until(() => started[0]?.isOver, 'the end of the answer')
  })

  it('are cut beyond the limit, those first that were unread longest', async () => {
    await serve({ maxUnreadBytes: 30 * 1024 ** 2 }, ({ outgoing }) => void outgoing.end(LARGE))
    open(get('/first')).socket.pause()
    const first = await exchangeAt(0)
    await until(() => first.outgoing.writableLength > 0, 'unread bytes')
    open(get('/second')).socket.pause()
    await until(() => cuts.length > 0, 'a cut')
    expect(cuts).toEqual(['too_many_unread_bytes'])
    await until(() => first.isOver, 'the end of the older one')
    expect(started[1]?.isOver).toBe(false)
  })

  it('that are read, however slowly at first, come whole', async () => {
    await serve({ maxUnreadBytes: 64 * 1024 ** 2 }, ({ outgoing }) => void outgoing.end(LARGE))
    const { socket } = open(get('/'))
    socket.pause()
    await exchangeAt(0)
    await loopTurns()
    socket.resume()
    await until(() => socket.bytesRead > LARGE.length, 'all of it')
    expect(cuts).toEqual([])
  })
})
