/**
 * A gateway whose server is killed while clients ask: what they have, and what the record holds afterwards.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Route, RouteSummary } from '#plugins/gateway/wire.js'
import { startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'
import type { FakeUpstream } from './upstream.js'

export const ROUTES = '/v1/preview/gateway-routes'
const BODY = JSON.stringify({ model: 'gpt', messages: [{ role: 'user', content: 'Hi' }], stream: true })

/** A streamed call. */
export const askChat = (url: string, key: string) =>
  fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'x-trainyard-key': key, 'content-type': 'application/json' },
    body: BODY,
  })

export async function killWhileCallsCome(upstream: Pick<FakeUpstream, 'host' | 'url'>, kills: number): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-gateway-'))
  const options = {
    dataDir,
    pluginSettings: { 'gateway-hosts': [upstream.host] },
    tuning: { plugins: { gateway: { pauseMs: 1 } } },
  }
  let server = await startKillableServer(options)
  const { apiKey } = server
  const route = await server.call<Route>(ROUTES, { name: 'killed', upstream: upstream.url })
  let [whole, before] = [0, 0]
  for (let kill = 0; kill < kills; kill++) {
    const { url } = server
    const clients = Array.from({ length: 4 }, async () => {
      for (;;) {
        try {
          await (await askChat(url + route.path, apiKey)).text()
          whole += 1
        } catch {
          return
        }
      }
    })
    const enough = before + 6
    await until(
      async () => ((await server.call<RouteSummary>(`${ROUTES}/killed`)).recorded.calls >= enough ? true : null),
      'rows',
    )
    await server.kill('SIGKILL')
    await Promise.all(clients)
    server = await startKillableServer({ ...options, apiKey })
    const text = await (await server.fetch(`${ROUTES}/killed/rows`)).text()
    const summary = await server.call<RouteSummary>(`${ROUTES}/killed`)
    const rows = text.split('\n').filter((line) => line !== '')
    // each row that is there can be read, and holds both sides
    expect(rows).toHaveLength(summary.recorded.calls)
    for (const row of rows) expect((JSON.parse(row) as { messages: unknown[] }).messages).toHaveLength(2)
    expect(summary.recorded.calls).toBeGreaterThanOrEqual(enough)
    expect(summary.recorded.calls).toBeLessThanOrEqual(whole + 4 * (kill + 1))
    expect(summary.recorded.content).toEqual({ kept: summary.recorded.calls })
    before = summary.recorded.calls
  }
  await server.kill('SIGTERM')
  await rm(dataDir, { recursive: true, force: true })
}
