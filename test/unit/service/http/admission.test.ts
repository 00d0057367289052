/**
 * Requests let in before their answers begin: how many, and who is served first while others arrive. Real sockets.
 */
import { Hono } from 'hono'
import { afterEach, describe, expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import { createAdmission } from '#service/http/admission.js'
import type { AppEnvironment } from '#service/http/environment.js'
import { listen } from '#service/http/listen.js'
import { until } from '../../../support/until.js'

type Listening = Awaited<ReturnType<typeof listen>>
let server: Listening | null = null
afterEach(async () => {
  await server?.close(0)
  server = null
})

/** Lets in at most `most`; `/held` answers when told to, `/left` has left while it is answered. */
async function startWith(most: number) {
  const admission = createAdmission(
    () => most,
    (limit) => new AppError('rate_limited', 'queue_full', `${limit} are in`),
  )
  const held = createDeferred<void>()
  const entered: string[] = []
  const app = new Hono<AppEnvironment>()
  app.get('/:name', async (c) => {
    const name = c.req.param('name')
    try {
      await admission.enter(c)
    } catch {
      return c.text('full', 429)
    }
    entered.push(name)
    if (name === 'left') admission.leave(c)
    if (name !== 'free') await held.promise
    return c.text('done')
  })
  server = await listen(app, { host: '127.0.0.1', port: 0 })
  const { url } = server
  return {
    ask: (name: string, signal?: AbortSignal) => fetch(`${url}/${name}`, signal ? { signal } : {}),
    held,
    entered,
  }
}

describe('requests for answers', () => {
  it('are refused beyond the limit, and let in again when one is answered', async () => {
    const { ask, held, entered } = await startWith(3)
    const first = ['held', 'held', 'held'].map((name) => ask(name))
    await until(() => entered.length === 3, 'three let in')
    expect((await ask('free')).status).toBe(429)
    held.resolve()
    for (const answer of first) expect((await answer).status).toBe(200)
    await until(async () => (await ask('free')).status === 200, 'room for one')
  })

  it('make room when their answer begins, and when their client goes away', async () => {
    const { ask, held, entered } = await startWith(1)
    const begun = ask('left')
    await until(() => entered.length === 1, 'one let in')
    const gone = new AbortController()
    const leaving = ask('held', gone.signal).catch(() => null)
    await until(() => entered.length === 2, 'another beside it')
    expect((await ask('free')).status).toBe(429)
    gone.abort()
    await leaving
    await until(async () => (await ask('free')).status === 200, 'room for one')
    held.resolve()
    expect((await begun).status).toBe(200)
  })

  it('are all served when hundreds come at once', async () => {
    const { ask, held, entered } = await startWith(200)
    const all = Array.from({ length: 300 }, (_, i) => ask(i < 200 ? 'held' : 'free'))
    await until(() => entered.length >= 200, 'as many as there is room for')
    held.resolve()
    const statuses = await Promise.all(all.map(async (answer) => (await answer).status))
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(200)
    expect(new Set(statuses)).toEqual(new Set(statuses.includes(429) ? [200, 429] : [200]))
    await until(async () => (await ask('free')).status === 200, 'room for one')
  })

  it('wait for a pause once many are let in, and are served then', async () => {
    const { ask, held, entered } = await startWith(40)
    // 5 are enough to begin with; the others come one after the other
    const all: Promise<Response>[] = []
    for (let i = 0; i < 40; i++) {
      all.push(ask('held'))
      if (i % 8 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await until(() => entered.length === 40, 'all let in')
    expect((await ask('free')).status).toBe(429)
    held.resolve()
    for (const answer of all) expect((await answer).status).toBe(200)
  })
})
