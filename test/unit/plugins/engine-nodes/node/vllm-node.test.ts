/** Against a small program that listens as `vllm serve` does and says what it is asked. */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, request as requestHttp } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { createAdapter, writeAdapter } from '#model/weights/adapter.js'
import { openVllmNode } from '#plugins/engine-nodes/node/vllm-node.js'
import { until } from '../../../../support/until.js'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-vllm-node-'))
})
afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

/** It holds a load of an adapter until there is a file `go`, and says in a file what it was asked. */
const PROGRAM = `#!${process.execPath}
const { appendFileSync, existsSync } = require('node:fs')
const { createServer } = require('node:http')
const [folder, args] = [__dirname, process.argv]
if (args[2] === '--version') { console.log('0.33.0'); process.exit() }
createServer((request, response) => {
  request.resume()
  const json = (value) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
  appendFileSync(folder + '/said', request.url + '\\n')
  if (request.url === '/version') json({ version: '0.33.0' })
  else if (request.url === '/v1/models') json({ data: [{ id: 'base', max_model_len: 64 }] })
  else if (request.url === '/v1/load_lora_adapter') {
    const look = () => existsSync(folder + '/go') ? json({}) : setTimeout(look, 10)
    look()
  } else json({})
}).listen(Number(args[args.indexOf('--port') + 1]), '127.0.0.1')
`

it('a client that hangs up while its adapter is loaded leaves no request behind, and its adapter can be dropped', async () => {
  const command = join(directory, 'vllm.cjs')
  await writeFile(command, PROGRAM, { mode: 0o755 })
  const folder = join(directory, 'a.1')
  await mkdir(folder)
  const modules = [{ path: 'model.layers.0.self_attn.q_proj', outputSize: 4, inputSize: 4 }]
  const weights = createAdapter(modules, { seed: 1, rank: 2, alpha: 4, targets: ['q_proj'] })
  await writeAdapter(folder, weights, { baseModelName: 'base' })
  const node = await openVllmNode({
    vllm: {
      command,
      modelPath: join(packageRoot(), 'src/assets/spark'),
      ...{ maxLoras: 1, maxCpuLoras: 1, maxLoraRank: 8, maxContextLength: null, maxSequences: 4 },
      extraArgs: [],
      environment: process.env,
    },
    adapters: { ensure: async (digest) => ({ digest, checkpoint: digest, files: {}, folder }), held: () => [] },
    noChangeFolder: join(directory, 'no-change'),
    device: 'a card',
    onChange: () => undefined,
  })
  let hasClosed = false
  let failure: unknown = null
  const server = createServer((request, response) => {
    response.once('close', () => {
      hasClosed = true
    })
    node.generate(request, response).catch((error: unknown) => {
      failure = error
    })
  }).listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = requestHttp({ port, method: 'POST', headers: { 'x-trainyard-adapter': 'a' } })
    client.on('error', () => undefined)
    client.end('{"model":"a","stream":true}')
    await until(() => node.adapters.includes('a'), 'an adapter that is being loaded')
    client.destroy()
    await until(() => hasClosed, 'a client that is gone')
    await writeFile(join(directory, 'go'), '')
    await until(() => node.running === 0, 'a node that is idle')
    expect(failure).toMatchObject({ code: 'client_gone' })
    await node.dropAdapter('a')
    await node.idle()
  } finally {
    server.close()
    await node.close()
  }
})
