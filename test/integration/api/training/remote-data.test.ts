/**
 * Training data behind addresses: fetched from a host the administrator named, over TLS and plain, through redirects and gzip;
 * refused where an address or a redirect leads inward; ended when it is too large, silent, slow or broken off.
 */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createRemoteData } from '#service/operations/training/remote-data.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const tls = (name: string): string =>
  readFileSync(new URL(`../../../fixtures/tls/${name}.pem`, import.meta.url), 'utf8')
const ROWS = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'.repeat(3)

const servers: Server[] = []
function listen(server: Server): Promise<number> {
  servers.push(server)
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)))
}
function close(server: Server): Promise<unknown> {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(resolve))
}
const asked: IncomingMessage[] = []
let answer: (request: IncomingMessage, response: ServerResponse) => void
const handle: RequestListener = (request, response) => {
  asked.push(request)
  answer(request, response)
}

let service: TestService
let modelId: string
let port: number
beforeAll(async () => {
  port = await listen(createServer(handle))
  service = await createTestService({ trainingDataHosts: [`127.0.0.1:${port}`], maxUploadBytes: 100_000 })
  modelId = await service.createModel('remote')
})
afterEach(() => void asked.splice(0))
afterAll(async () => {
  await service.dispose()
  await Promise.all(servers.map(close))
})

async function submit(url: string, more: object = {}): Promise<[number, string | undefined, string]> {
  const { status, body } = await service.json<{ error?: { code: string; message: string } }>(
    '/v1/preview/sft-training-jobs',
    { json: { model_id: modelId, training_data_url: url, ...more } },
  )
  return [status, body.error?.code, body.error?.message ?? '']
}
const address = (path = '/rows.jsonl'): string => `http://127.0.0.1:${port}${path}`

describe('an address of training data', () => {
  test('is fetched once, without anything of ours, and its rows are checked', async () => {
    answer = (_, response) => response.end(ROWS)
    expect((await submit(address('/rows.jsonl?signature=secret')))[0]).toBe(200)
    expect(asked).toHaveLength(1)
    expect(asked[0]!.headers).not.toHaveProperty('authorization')
    expect(asked[0]!.headers['user-agent']).toMatch(/^Trainyard\//)
    answer = (_, response) => response.end('{"messages":1}\n')
    expect((await submit(address()))[0]).toBe(400)
  })

  test('may be compressed, be redirected, and hold validation rows', async () => {
    answer = (request, response) => {
      if (request.url === '/moved') return response.writeHead(302, { location: '/rows.jsonl.gz' }).end()
      return response.end(gzipSync(ROWS))
    }
    expect((await submit(address('/moved')))[0]).toBe(200)
    expect(asked.map(({ url }) => url)).toEqual(['/moved', '/rows.jsonl.gz'])
    expect((await submit(address(), { validation_data_url: address('/moved') }))[0]).toBe(200)
  })

  test.each([
    ['http://example.com/rows', 'must be an https: address'],
    ['https://127.0.0.1/rows', 'private network'],
    ['https://[::1]/rows', 'private network'],
    ['https://169.254.169.254/latest', 'private network'],
    ['https://localhost/rows', 'private network'],
    ['https://user:pass@example.com/rows', 'user name'],
    ['ftp://example.com/rows', 'must be a file id'],
  ])('%s is refused before anything is asked', async (url, reason) => {
    const [status, code, message] = await submit(url)
    expect([status, code]).toEqual([400, 'training_data_refused'])
    expect(message).toContain(reason)
  })

  test.each(['http://127.0.0.1:1/inward', 'https://10.0.0.1/inward', 'file:///etc/hostname', '//169.254.169.254/x'])(
    'a redirect to %s is not followed',
    async (location) => {
      answer = (_, response) => response.writeHead(302, { location }).end()
      const [status, code] = await submit(address())
      expect([status, code]).toEqual([400, 'training_data_refused'])
      expect(asked).toHaveLength(1)
    },
  )

  test('that is redirected in a circle, missing or broken off is unreachable', async () => {
    const cases: readonly (readonly [typeof answer, string])[] = [
      [(_, response) => response.writeHead(302, { location: '/again' }).end(), 'more than 5 redirects'],
      [(_, response) => response.writeHead(404).end(), 'answered 404'],
      [
        (_, response) => {
          response.writeHead(200, { 'content-length': '5000' }).write(ROWS)
          setTimeout(() => response.destroy(), 20)
        },
        'cannot be fetched',
      ],
    ]
    for (const [how, reason] of cases) {
      answer = how
      const [status, code, message] = await submit(address())
      expect([status, code, reason]).toEqual([400, 'training_data_unreachable', reason])
      expect(message).toContain(reason)
    }
  })

  test('that is silent or slow is given up', async () => {
    const remote = createRemoteData({
      allowedHosts: ['127.0.0.1'],
      userAgent: 'test',
      maxBytes: 1e9,
      silenceMs: 300,
      minBytesPerSecond: 1_000_000,
    })
    const read = async (): Promise<void> => {
      for await (const _ of remote.open('key', { field: 'training_data_url', url: address() }));
    }
    answer = () => undefined
    await expect(read()).rejects.toThrow('nothing came for 0.3 s')
    answer = (_, response) => void response.writeHead(200).write(ROWS)
    await expect(read()).rejects.toThrow('nothing came for 0.3 s')
    answer = (_, response) => {
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    }
    // on a machine that stands still for a while, the slow one is silent
    await expect(read()).rejects.toThrow(/slower than 1000000 bytes per second|nothing came/)
  })

  test('that is too large is refused by its announcement, or while it comes', async () => {
    answer = (_, response) => response.writeHead(200, { 'content-length': '100001' }).write('x')
    expect((await submit(address())).slice(0, 2)).toEqual([413, 'request_too_large'])
    answer = (_, response) => response.writeHead(200).end('x'.repeat(200_000))
    expect((await submit(address())).slice(0, 2)).toEqual([413, 'request_too_large'])
  })

  test('that is slow takes four places of sixteen from one key, and none from another', async () => {
    const remote = createRemoteData({ allowedHosts: ['127.0.0.1'], userAgent: 'test', maxBytes: 1e9 })
    const open = (key: string) =>
      remote.open(key, { field: 'training_data_url', url: address() })[Symbol.asyncIterator]()
    answer = (_, response) => void response.writeHead(200).write(ROWS)
    const begin = async (key: string, count: number) => {
      const begun = Array.from({ length: count }, () => open(key))
      for (const rows of begun) expect((await rows.next()).done).toBe(false)
      return begun
    }
    const [first] = await begin('one', 4)
    await expect(open('one').next()).rejects.toMatchObject({
      code: 'queue_full',
      message: '4 addresses of training data are being fetched for this key',
    })
    await begin('another', 4)
    await first?.return(undefined)
    await begin('one', 1)
    await begin('third', 4)
    await begin('fourth', 4)
    await expect(open('fifth').next()).rejects.toMatchObject({
      message: '16 addresses of training data are being fetched',
    })
    remote.stop()
  })

  test('over TLS needs a certificate that is trusted', async () => {
    const securePort = await listen(
      createSecureServer({ key: tls('key'), cert: tls('certificate') }, (_, response) => response.end(ROWS)),
    )
    const read = async (ca?: string): Promise<string> => {
      const remote = createRemoteData({
        allowedHosts: ['127.0.0.1'],
        userAgent: 'test',
        maxBytes: 10_000,
        ...(ca === undefined ? {} : { ca }),
      })
      const pieces: Uint8Array[] = []
      const rows = remote.open('key', { field: 'training_data_url', url: `https://127.0.0.1:${securePort}/rows` })
      for await (const piece of rows) pieces.push(piece)
      return Buffer.concat(pieces).toString()
    }
    expect(await read(tls('certificate'))).toBe(ROWS)
    await expect(read()).rejects.toMatchObject({ code: 'training_data_unreachable' })
  })
})
