/**
 * Files that a worker finds again by digest, through its client and a server that counts what is fetched.
 */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { sha256Of } from '#base/util/file-content.js'
import { createOwnFiles } from '#training/worker/own-files.js'
import { createWorkerClient } from '#training/worker/worker-client.js'
import { workerJob } from '../../../support/model/worker-job.js'

let folder: string
let server: Server
let url: string
const fetched: string[] = []
const stored = new Map<string, Buffer>()
beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'trainyard-own-')), 'files')
  fetched.length = 0
  stored.clear()
  server = createServer(async (request, response) => {
    const path = request.url ?? ''
    if (request.method === 'PUT') {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      stored.set(path.split('/').at(-1) ?? '', Buffer.concat(parts))
      response.end('{}')
    } else if (path.includes('/parent/')) {
      const bytes = stored.get(path.split('/').at(-1) ?? '') ?? Buffer.alloc(0)
      fetched.push(path.split('/').at(-1) ?? '')
      response.setHeader('x-content-sha256', sha256Of(bytes))
      response.end(bytes)
    } else {
      const digests = Object.fromEntries([...stored].map(([name, bytes]) => [name, sha256Of(bytes)]))
      response.end(JSON.stringify({ ...workerJob({}), parent_files: [...stored.keys()], parent_digests: digests }))
    }
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  const address = server.address()
  url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
})
afterEach(async () => {
  await new Promise((closed) => server.close(closed))
  await rm(join(folder, '..'), { recursive: true, force: true })
})

const clientOf = (ownFiles: ReturnType<typeof createOwnFiles> | null) =>
  createWorkerClient({ url, token: 't', jobId: 'j', attempt: 1, isSession: false } as never, { ownFiles })

it('what a worker wrote is not fetched again by the next job, and what it has not or is damaged is', async () => {
  const own = createOwnFiles(folder)
  const weights = new Uint8Array(1000).fill(7)
  const optimizer = new Uint8Array(2000).fill(8)
  const first = clientOf(own)
  await first.putFile('adapter_model.safetensors', weights)
  await first.putFile('optimizer.safetensors', optimizer)
  const next = clientOf(own)
  await next.getJob()
  const found = await next.getParentFile('adapter_model.safetensors')
  expect([sha256Of(found.bytes), found.sha256]).toEqual([sha256Of(weights), sha256Of(weights)])
  expect(fetched).toEqual([])
  await writeFile(join(folder, sha256Of(optimizer)), 'damaged')
  expect(sha256Of((await next.getParentFile('optimizer.safetensors')).bytes)).toBe(sha256Of(optimizer))
  const elsewhere = clientOf(null)
  await elsewhere.getJob()
  expect(sha256Of((await elsewhere.getParentFile('adapter_model.safetensors')).bytes)).toBe(sha256Of(weights))
  expect(fetched).toEqual(['optimizer.safetensors', 'adapter_model.safetensors'])
})

it('a few of them are kept', async () => {
  const own = createOwnFiles(folder, 3)
  for (let i = 0; i < 6; i++) {
    const bytes = new Uint8Array(10).fill(i)
    await own.keep(sha256Of(bytes), bytes)
  }
  expect(await readdir(folder)).toHaveLength(3)
})
