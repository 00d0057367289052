import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { createAdapter, readAdapter, writeAdapter } from '#model/weights/adapter.js'
import { createVllmAdapters, loadNoChange, NO_CHANGE, writeNoChange } from '#plugins/engine-nodes/node/vllm-adapters.js'

let directory: string
let server: Server
let url: string
let said: string[]

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-vllm-adapters-'))
  said = []
  fetches = 0
  folders = new Map()
  server = createServer(async (request, response) => {
    const { lora_name: name } = (await json(request)) as { lora_name: string }
    said.push(`${request.url} ${name}`)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  server.close()
  await rm(directory, { recursive: true, force: true })
})

let fetches = 0
let folders = new Map<string, string>()
/** As an adapter folder does it: each fetch lies in a folder of its own, until it is dropped. */
const adapters = {
  ensure: async (digest: string) => {
    const before = folders.get(digest)
    if (before !== undefined) return { digest, checkpoint: digest, files: {}, folder: before }
    fetches += 1
    const folder = join(directory, `${digest}.${fetches}`)
    folders.set(digest, folder)
    const modules = [{ path: 'model.layers.0.self_attn.q_proj', outputSize: 4, inputSize: 4 }]
    await mkdir(folder)
    await writeAdapter(folder, createAdapter(modules, { seed: 1, rank: 2, alpha: 4, targets: ['q_proj'] }), {
      baseModelName: 'base',
    })
    return { digest, checkpoint: digest, files: {}, folder }
  },
}

it('an adapter is given once, however many ask, and stays until the last request that uses it has ended', async () => {
  const given = createVllmAdapters(() => url, adapters)
  const [first, second] = await Promise.all([given.take('a'), given.take('a')])
  expect([first.name, second.name]).toEqual(['a.1', 'a.1'])
  let isDropped = false
  folders.delete('a')
  const drop = given.drop('a').then(() => {
    isDropped = true
  })
  // asked for again meanwhile: under a name of its own
  const again = await given.take('a')
  expect(again.name).toBe('a.2')
  first.release()
  await given.take('b')
  expect([isDropped, said]).toEqual([
    false,
    ['/v1/load_lora_adapter a.1', '/v1/load_lora_adapter a.2', '/v1/load_lora_adapter b.3'],
  ])
  second.release()
  await drop
  expect(said.at(-1)).toBe('/v1/unload_lora_adapter a.1')
  expect(given.held).toEqual(['a', 'b'])
})

it('one that is not known any more, and all of a vLLM that ended, are given anew', async () => {
  const given = createVllmAdapters(() => url, adapters)
  const first = await given.take('a')
  first.forget()
  await given.take('a')
  given.clear()
  await given.take('a')
  expect(said).toEqual(Array(3).fill('/v1/load_lora_adapter a.1'))
})

it('two that find it unknown give it once more only, and it stays until all requests that took it have ended', async () => {
  const given = createVllmAdapters(() => url, adapters)
  const [first, second, third] = await Promise.all([given.take('a'), given.take('a'), given.take('a')])
  first.forget()
  first.release()
  const again = await given.take('a')
  second.forget()
  second.release()
  const last = await given.take('a')
  expect(said).toEqual(Array(2).fill('/v1/load_lora_adapter a.1'))
  folders.delete('a')
  let isDropped = false
  const drop = given.drop('a').then(() => {
    isDropped = true
  })
  again.release()
  last.release()
  // two turns to the server and back: a drop that waits for nobody has ended by then
  await given.take('b')
  await given.take('c')
  expect(isDropped).toBe(false)
  third.release()
  await drop
  expect(said.at(-1)).toBe('/v1/unload_lora_adapter a.1')
})

it('the adapter for requests without one changes nothing', async () => {
  const folder = join(directory, 'no-change')
  await writeNoChange(join(packageRoot(), 'src/assets/spark'), folder)
  await loadNoChange(url, folder)
  expect(said).toEqual([`/v1/load_lora_adapter ${NO_CHANGE}`])
  const { a, b } = await readAdapter(folder)
  expect([a.size, [...b.values()].flatMap((values) => [...values]).every((value) => value === 0)]).toEqual([1, true])
})
