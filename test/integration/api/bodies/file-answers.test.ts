/**
 * Files as answers: whole for slow readers, closed when a reader leaves or wants the head alone, cut when the file is not what it was.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { readdir, truncate } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

/** More than sockets of both sides hold. */
const SIZE = 24 * 1024 ** 2

let service: TestService
let bytes: Buffer
let address: string
beforeAll(async () => {
  service = await createTestService()
  const rng = createRng('files')
  const block = Buffer.from(Array.from({ length: 4096 }, () => rng.integer(256)))
  bytes = Buffer.concat(
    Array.from({ length: SIZE / block.length }, (_, i) => Buffer.concat([block]).fill(i % 251, 0, 8)),
  )
  address = await upload(bytes)
})
afterAll(() => service.dispose())

async function upload(content: Buffer): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'evals')
  form.set('file', new Blob([new Uint8Array(content)]), 'rows.jsonl')
  const stored = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }
  return `/v1/files/${stored.id}/content`
}

const digest = (content: Uint8Array) => createHash('sha256').update(content).digest('hex')

/** A request on a socket of its own, of which nothing is read yet. */
function ask(path: string): Socket {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
  socket.pause()
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${service.apiKey}\r\n\r\n`)
  return socket
}

/** Blobs that this process, which is the server, has open. */
function openBlobs(): number {
  const names = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return names.filter((name) => name.startsWith(join(service.dataDir, 'blobs'))).length
}

describe('a file as an answer', () => {
  it('is what was uploaded, with its length and type', async () => {
    const response = await service.fetch(address)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': String(SIZE),
      'content-disposition': "attachment; filename*=UTF-8''rows.jsonl",
    })
    expect(response.headers.get('x-request-id')).toMatch(/./)
    expect(digest(new Uint8Array(await response.arrayBuffer()))).toBe(digest(bytes))
  })

  it('is whole for a reader that stops and goes on, among others', async () => {
    const socket = ask(address)
    const parts: Buffer[] = []
    let length = 0
    // known with the first part, which may hold bytes of the file behind the head
    let whole = Number.POSITIVE_INFINITY
    socket.on('data', (part: Buffer) => {
      parts.push(part)
      length += part.length
      if (parts.length === 1) whole = SIZE + part.indexOf('\r\n\r\n') + 4
    })
    for (let rounds = 0; length < whole; rounds += 1) {
      socket.resume()
      await once(socket, 'data')
      socket.pause()
      if (rounds % 100 === 0) expect((await service.fetch('/v1/health')).status).toBe(200)
      await turn()
    }
    const all = Buffer.concat(parts)
    expect(digest(all.subarray(all.indexOf('\r\n\r\n') + 4))).toBe(digest(bytes))
    socket.destroy()
  })

  it.runIf(process.platform === 'linux')('is closed when the reader leaves, and for HEAD', async () => {
    const sockets = Array.from({ length: 4 }, () => ask(address))
    await until(async () => openBlobs() === 4, 'four open files')
    for (const socket of sockets) socket.destroy()
    await until(async () => openBlobs() === 0, 'no open file')
    const head = await service.fetch(address, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, String(SIZE), ''])
    await until(async () => openBlobs() === 0, 'no open file behind HEAD')
  })

  it('that is shorter than it was is cut, not left waiting; the next request is answered', async () => {
    const content = Buffer.from('a file that loses its end')
    const damaged = await upload(content)
    const sha256 = digest(content)
    const folder = join(service.dataDir, 'blobs', 'sha256', sha256.slice(0, 2))
    expect(await readdir(folder)).toContain(sha256.slice(2))
    await truncate(join(folder, sha256.slice(2)), 5)
    const reading = service.fetch(damaged).then((response) => response.text())
    await expect(reading).rejects.toThrow()
    expect((await service.fetch('/v1/health')).status).toBe(200)
  })
})
