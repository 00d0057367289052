/**
 * What recording may never do: hold a call up, keep half of one, or pass over in silence what it lost.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Route, RouteSummary } from '#plugins/gateway/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'
import { askChat as ask, ROUTES } from './killed.js'
import { type FakeUpstream, startUpstream } from './upstream.js'

let upstream: FakeUpstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

describe('a store that does not keep up', () => {
  let service: TestService
  afterAll(() => service.dispose())

  it('full: calls pass on, what is lost is counted and said; a table that is gone loses calls and nothing else', async () => {
    // nothing is written before the queue is full
    const limits = { mostCalls: 2, pauseMs: 400 }
    service = await createTestService({ gatewayHosts: [upstream.host], tuning: { plugins: { gateway: limits } } })
    const { body: route } = await service.json<Route>(ROUTES, { json: { name: 'full', upstream: upstream.url } })
    const whole = await (await ask(`${upstream.url}/v1`, '')).text()
    const texts = await Promise.all(
      Array.from({ length: 8 }, async () => (await ask(service.url + route.path, service.apiKey)).text()),
    )
    expect(new Set(texts)).toEqual(new Set([whole]))
    const summary = (await service.json<RouteSummary>(`${ROUTES}/full`)).body
    expect(summary.calls).toBe(8)
    expect(summary.lost_calls + summary.recorded.calls).toBe(8)
    expect(summary.lost_calls).toBeGreaterThan(0)
    const rows = await service.openRows()
    try {
      await sql`alter table gateway_calls rename to gateway_gone`.execute(rows.db)
      expect(await (await ask(service.url + route.path, service.apiKey)).text()).toBe(whole)
      const lost = async (): Promise<number> =>
        (await service.json<{ data: Route[] }>(ROUTES)).body.data[0]?.lost_calls ?? 0
      await until(async () => ((await lost()) === summary.lost_calls + 1 ? true : null), 'the lost call')
      await sql`alter table gateway_gone rename to gateway_calls`.execute(rows.db)
    } finally {
      await rows.close()
    }
    expect(await (await ask(service.url + route.path, service.apiKey)).text()).toBe(whole)
    const after = (await service.json<RouteSummary>(`${ROUTES}/full`)).body
    expect([after.calls, after.recorded.calls]).toEqual([10, summary.recorded.calls + 1])
    const metrics = await (await service.fetch('/metrics')).text()
    expect(metrics).toContain(`trainyard_gateway_lost_calls ${after.lost_calls}`)
  })

  it('deletes what is too old and what is too much, the oldest first, and a route with all of its calls', async () => {
    const json = { name: 'small', upstream: upstream.url, max_bytes: 4000, max_call_bytes: 1000 }
    const tuned = await service.restart({ tuning: { plugins: { gateway: { pauseMs: 5, sweepMs: 50 } } } })
    service = tuned
    const { body: route } = await service.json<Route>(ROUTES, { json })
    for (let i = 0; i < 12; i++) await (await ask(service.url + route.path, service.apiKey)).text()
    const summary = await until(async () => {
      const { body } = await service.json<RouteSummary>(`${ROUTES}/small`)
      return body.calls === 12 && body.recorded.bytes <= 4000 ? body : null
    }, 'a route within its size')
    expect(summary.recorded.calls).toBeGreaterThan(2)
    const rows = await service.openRows()
    const old = Date.now() - 40 * 86_400_000
    await sql`update gateway_calls set started_at_ms = ${old}`.execute(rows.db)
    const left = async () => (await service.json<RouteSummary>(`${ROUTES}/small`)).body.recorded.calls
    await until(async () => ((await left()) === 0 ? true : null), 'nothing that is too old')
    await (await ask(service.url + route.path, service.apiKey)).text()
    expect(await left()).toBe(1)
    await service.fetch(`${ROUTES}/small`, { method: 'DELETE' })
    const { rows: counted } = await sql<{ n: number }>`
      select count(*) as n from gateway_calls where route_id = ${route.id}`.execute(rows.db)
    expect(Number(counted[0]?.n)).toBe(0)
    await rows.close()
  })
})
