/**
 * node-llama-cpp as the peer of decode and prefill benches: same model, same prompts, greedy, on the CPU.
 *
 * A development-only installation in `.cache/bench` (see `HOW`), never a dependency of the package.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const ENTRY = path.join(ROOT, '.cache/bench/node_modules/node-llama-cpp/dist/index.js')

/** How to install the peer. */
export const HOW = 'npm i --prefix .cache/bench --ignore-scripts node-llama-cpp@3.22.1'

/** Whether the peer is installed. */
export function isInstalled() {
  return existsSync(ENTRY)
}

/** Loads a model. */
export async function loadPeer(modelPath, { sequences, contextSize }) {
  const { getLlama } = await import(pathToFileURL(ENTRY).href)
  const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, maxThreads: 2, logLevel: 'error' })
  const model = await llama.loadModel({ modelPath })
  const context = await model.createContext({ contextSize, sequences, threads: 2, batchSize: 512 })
  const slots = Array.from({ length: sequences }, () => context.getSequence())

  /** Greedy tokens of one sequence. */
  async function generate(slot, promptIds, count) {
    await slot.clearHistory()
    const ids = []
    const iterator = slot.evaluate([...promptIds], { temperature: 0, yieldEogToken: true })
    for await (const id of iterator) if (ids.push(id) >= count) break
    return ids
  }

  return {
    generate: (promptIds, count) => generate(slots[0], promptIds, count),
    generateMany: (prompts, count) => Promise.all(prompts.map((ids, i) => generate(slots[i], ids, count))),
    async dispose() {
      await context.dispose()
      await model.dispose()
    },
  }
}
