/**
 * A download over connections that break before anything of them is read, as on a busy machine: what had come by then counts.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createHubConnection } from '#service/operations/base-models/hub-connection.js'
import { downloadHubFile } from '#service/operations/base-models/hub-download.js'

/** Below what Node keeps of an unread answer before it stops reading. */
const PIECE_BYTES = 5000
const PIECES = 12

test('bytes that came before a connection broke are kept, read or not', async () => {
  const bytes = Buffer.from(Array.from({ length: PIECES * PIECE_BYTES }, (_, i) => (i * i) % 251))
  const starts: number[] = []
  const server = createServer((request, answer) => {
    const start = Number(/\d+/.exec(request.headers.range ?? '0')?.[0])
    starts.push(start)
    const range = { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` }
    const headers = { 'content-length': bytes.length - start }
    answer.writeHead(start > 0 ? 206 : 200, start > 0 ? { ...headers, ...range } : headers)
    answer.write(bytes.subarray(start, start + PIECE_BYTES), () => answer.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  try {
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const hub = createHubConnection({ endpoint, token: null, userAgent: 'test' })
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const file = { name: 'model.safetensors', sizeBytes: bytes.length, sha256, gitSha1: null }
    const progress: number[] = []
    await downloadHubFile(file, {
      connection: {
        open: async (path, request) => {
          const answer = await hub.open(path, request)
          // the last piece ends in good order once it is read
          const isLast = starts.at(-1) === (PIECES - 1) * PIECE_BYTES
          if (!isLast && !answer.socket.closed) await once(answer.socket, 'close')
          return answer
        },
      },
      repository: 'org/model',
      commit: '0'.repeat(40),
      directory,
      signal: new AbortController().signal,
      onProgress: (length) => void progress.push(length),
      retryMs: 1,
    })
    expect(await readFile(join(directory, file.name))).toEqual(bytes)
    expect(starts).toEqual(Array.from({ length: PIECES }, (_, i) => i * PIECE_BYTES))
    expect(progress.at(-1)).toBe(bytes.length)
  } finally {
    server.closeAllConnections()
    server.close()
    await rm(directory, { recursive: true, force: true })
  }
})
