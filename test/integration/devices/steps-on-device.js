/**
 * Decodes by the runner on the CPU and on WebGPU, as `device-proof.test.ts` asks in a process that has a driver: one line of JSON with
 * each device's tokens and the bytes that each of its steps was sent.
 *
 * A long prompt in pieces, windows on every other layer, four answers of it that go apart, one that ends, and a prompt that joins.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { prepareRandom } from '../../bench/support/random-model.js'

const load = (name) => import(new URL(`../../../dist/src/${name}.js`, import.meta.url))

const CONFIG = {
  family: 'llama',
  layerCount: 2,
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 8,
  mlpSize: 64,
  vocabularySize: 300,
  contextLength: 1024,
  normEpsilon: 1e-5,
  rotary: { theta: 10000, llama3Scaling: null, linearFactor: 1 },
  layerAttention: ['sliding', 'full'],
  slidingWindow: 100,
  activation: 'silu',
  hasQkvBias: false,
  hasOutputBias: false,
  hasMlpBias: false,
  hasQkNorm: false,
  isEmbeddingTied: true,
}
const PROMPT = 300
const PIECE = 100

const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
const { loadOnnxRunner } = await load('inference/engine/runner/onnx-runner')

/** Counts what comes from JavaScript's memory. */
function counting(runtime, sent) {
  const counted = (session) => ({
    ...session,
    run: (feeds, ...rest) => {
      for (const tensor of Object.values(feeds)) if ('data' in tensor) sent.bytes += tensor.data.byteLength
      return session.run(feeds, ...rest)
    },
  })
  return {
    ...runtime,
    loadSession: async (...given) => counted(await runtime.loadSession(...given)),
    loadResident: async (...given) => counted(await runtime.loadResident(...given)),
  }
}

async function decoded(device, prepared) {
  const sent = { bytes: 0 }
  const runtime = counting(createOrtRuntime({ device }), sent)
  const options = { runtime, prepared, precision: 'f32', threads: 1, contextLength: 1024, kvBytes: 64e6 }
  const runner = await loadOnnxRunner(options)
  const idsOf = (length, seed) => Array.from({ length }, (_, at) => (at * 31 + seed * 17 + ((at * at) % 13)) % 250)
  const read = async (ids) => {
    const sequence = runner.createSequence(ids.length)
    for (let at = 0; at < ids.length; at += PIECE) {
      const piece = ids.slice(at, at + PIECE)
      const rows = await runner.prefill([{ sequence, ids: piece, adapter: null, rows: 'last' }])
      rows.keep(0, piece.length)
    }
    return sequence
  }
  const tokens = []
  const bytes = []
  const step = async () => {
    for (const { slots } of runner.batches) {
      const parts = slots.map((slot) => ({ slot, ids: [slot.next], adapter: null, inverseTemperature: 1 }))
      sent.bytes = 0
      const rows = await runner.decode(parts, ['logits'])
      bytes.push(sent.bytes)
      for (const [part, slot] of slots.entries()) {
        const { logits } = rows.row(part, 0)
        slot.next = logits.indexOf(Math.max(...logits))
        tokens.push(slot.next)
        rows.keep(part, 1)
      }
    }
  }
  const prompt = await read(idsOf(PROMPT, 1))
  const slots = [3, 5, 7, 9].map((next) =>
    Object.assign(runner.allocate(prompt, { tail: null, siblings: 4, choices: 4 }), { next }),
  )
  for (let at = 0; at < 4; at += 1) await step()
  runner.free(slots[1])
  const joined = await read(idsOf(PROMPT - 50, 2))
  const request = { tail: null, siblings: 4, choices: 4 }
  Object.assign(runner.allocate(joined, request), { next: 4 })
  for (let at = 0; at < 3; at += 1) await step()
  const { bytesPerToken } = runner
  await runner.release()
  return { tokens, bytes, promptBytes: (PROMPT - 50) * bytesPerToken }
}

const directory = await mkdtemp(path.join(os.tmpdir(), 'trainyard-steps-'))
try {
  const prepared = await prepareRandom(load, directory, CONFIG, true)
  const found = { cpu: await decoded('cpu', prepared), webgpu: await decoded('webgpu', prepared) }
  console.log(JSON.stringify(found))
} finally {
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
}
