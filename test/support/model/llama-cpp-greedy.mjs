/**
 * Greedy continuations by llama.cpp, through its binding node-llama-cpp in `.cache/llama-node` (see `.ci/run`).
 *
 *     node llama-cpp-greedy.mjs <package folder> '{"model": "x.gguf", "lora": null, "prompts": [[1, 2]], "count": 24, "text": "…"}'
 *
 * Prints `{"tokens": [[…]], "textTokens": […]}`: the continuations, and how llama.cpp tokenizes `text`.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, json] = process.argv.slice(2)
const { model: modelPath, lora, prompts, count, text } = JSON.parse(json)
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(join(folder, 'node-llama-cpp/dist/index.js')).href)
const llama = await getLlama({
  build: 'never',
  gpu: false,
  maxThreads: 1,
  skipDownload: true,
  logLevel: LlamaLogLevel.error,
})
const model = await llama.loadModel({ modelPath })
const tokens = []
for (const prompt of prompts) {
  const context = await model.createContext({
    contextSize: 512,
    threads: 1,
    ...(lora === null ? {} : { lora: { adapters: [{ filePath: lora }] } }),
  })
  const answer = []
  for await (const token of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    answer.push(token)
    if (answer.length === count) break
  }
  tokens.push(answer)
  await context.dispose()
}
process.stdout.write(JSON.stringify({ tokens, textTokens: [...model.tokenize(text, true)] }))
process.exit(0)
