#!/usr/bin/env node
/**
 * Stands for the program `vllm`: our own engine behind the addresses and the wire of `vllm serve`, so that the path through vLLM is taken every day
 * with real numbers. It drops every adapter as soon as a request has used it, which vLLM does when others need the place.
 *
 * Appends a line to `said` in its home when it is ready, for each load, and for each request what it was answered.
 */
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { openOnnxNode } from '#plugins/engine-nodes/node/onnx-node.js'

const VERSION = '0.33.0'
const HOME = process.env['HOME'] ?? ''
const args = process.argv.slice(2)
const flag = (name) => Number(args[args.indexOf(name) + 1])
if (args[0] === '--version') {
  console.log(VERSION)
  process.exit()
}

/** Folders by the names under which they were loaded. */
const loaded = new Map()
const node = await openOnnxNode({
  load: {
    type: 'load',
    baseModel: 'base',
    sourcePath: args[1],
    preparedDir: join(HOME, 'stand-in'),
    precision: 'f32',
    threads: 1,
    maxContextLength: null,
    maxConcurrentSequences: flag('--max-num-seqs'),
    kvCacheBytes: null,
    speculation: 'auto',
  },
  adapters: { ensure: adapterOf, held: () => [...loaded.keys()] },
  runtime: createOrtRuntime(),
  clock: { nowMs: Date.now, monotonicMs: () => performance.now() },
})

async function adapterOf(name) {
  const folder = loaded.get(name)
  const files = {}
  for (const file of await readdir(folder)) {
    const path = join(folder, file)
    files[file] = {
      path,
      sha256: createHash('sha256')
        .update(await readFile(path))
        .digest('hex'),
    }
  }
  return { digest: name, checkpoint: name, files, folder }
}

async function generate(request, response) {
  const { model, sampling_params: params, ...body } = await json(request)
  const name = model === 'base' ? null : model
  const isThere = name === null || loaded.has(name)
  const isListed = params.logprobs !== undefined
  say(`generate ${isThere ? 200 : 404}${isListed ? '' : ' without log-probabilities'}`)
  if (!isThere) return send(response, 404, { error: { message: `The model \`${name}\` does not exist.`, code: 404 } })
  const write = response.write.bind(response)
  // where the test says so, an answer begins and never ends
  const isHeld = existsSync(join(HOME, 'hold'))
  let events = 0
  response.write = (text) => {
    events += 1
    return isHeld && events > 1 ? true : write(toVllm(text, isListed))
  }
  if (isHeld) response.end = () => response
  // the next one that asks for it finds it gone
  response.once('close', () => loaded.delete(name))
  // a word that our engine has no use for
  const { detokenize: _, ...known } = params
  const text = JSON.stringify({ ...body, model: name, sampling_params: { ...known, logprobs: params.logprobs ?? 0 } })
  await node.generate(Readable.from([Buffer.from(text)]), response)
}

/** An event of ours in the order of vLLM: the sampled token in front of the listed ones, each with its rank; none where none were asked for. */
function toVllm(text, isListed) {
  const event = JSON.parse(text.slice('data: '.length))
  for (const choice of event.choices) {
    if (!isListed) choice.logprobs = null
    for (const position of choice.logprobs?.content ?? []) {
      const ranked = position.top_logprobs.map((token, i) => ({ ...token, rank: i + 1 }))
      const own = ranked.find((token) => token.token_id === position.token_id)
      const { top_logprobs: _, ...sampled } = position
      position.top_logprobs = [{ ...sampled, rank: own?.rank ?? 1000 }, ...ranked]
    }
  }
  return `data: ${JSON.stringify(event)}\n\n`
}

const say = (line) => appendFileSync(join(HOME, 'said'), `${line}\n`)
const send = (response, status, value) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

const ROUTES = {
  'GET /health': (_, response) => send(response, 200, {}),
  'GET /version': (_, response) => send(response, 200, { version: VERSION }),
  'GET /v1/models': (_, response) => send(response, 200, { data: [{ id: 'base', max_model_len: node.contextLength }] }),
  'POST /v1/load_lora_adapter': async (request, response) => {
    const { lora_name: name, lora_path: folder } = await json(request)
    say('load')
    loaded.set(name, folder)
    send(response, 200, {})
  },
  'POST /v1/unload_lora_adapter': async (request, response) => {
    loaded.delete((await json(request)).lora_name)
    send(response, 200, {})
  },
  'POST /inference/v1/generate': generate,
}

createServer((request, response) => {
  const route = ROUTES[`${request.method} ${request.url}`]
  if (route === undefined) return send(response, 404, { detail: 'Not Found' })
  return Promise.resolve(route(request, response)).catch((error) => {
    process.stderr.write(`${error.stack}\n`)
    send(response, 500, { error: { message: error.message, code: 500 } })
  })
}).listen(flag('--port'), '127.0.0.1', () => say(`pid ${process.pid}`))
