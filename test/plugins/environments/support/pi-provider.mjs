/** Tells the agent pi of the address and the model that the environment names: it reads neither by itself. */
// biome-ignore lint/style/noDefaultExport: the agent takes its extensions by their default export
export default function addProvider(pi) {
  const model = { id: process.env.TRAINYARD_MODEL, name: 'trained', reasoning: false, input: ['text'] }
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }
  pi.registerProvider('trainyard', {
    ...{ baseUrl: process.env.OPENAI_BASE_URL, apiKey: 'OPENAI_API_KEY', api: 'openai-completions' },
    models: [{ ...model, contextWindow: 100_000, maxTokens: 48, cost }],
  })
}
