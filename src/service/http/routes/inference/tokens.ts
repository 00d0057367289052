/**
 * `/tokenize`, `/detokenize`, `/apply-template` and `/tokenizer_info`, at the root as in vLLM and llama.cpp.
 */
import { readJson } from '../../body.js'
import type { App, AppOptions } from '../../environment.js'

export function bindTokens(app: App, options: AppOptions): void {
  const { tokens } = options.services
  app.post('/tokenize', async (c) => c.json(await tokens.tokenize(c.get('principal'), await readJson(c, 'tokenize'))))
  app.post('/detokenize', async (c) =>
    c.json(await tokens.detokenize(c.get('principal'), await readJson(c, 'detokenize'))),
  )
  app.post('/apply-template', async (c) =>
    c.json(await tokens.applyTemplate(c.get('principal'), await readJson(c, 'applyTemplate'))),
  )
  app.get('/tokenizer_info', async (c) =>
    c.json(await tokens.describe(c.get('principal'), c.req.query('model') ?? null)),
  )
}
