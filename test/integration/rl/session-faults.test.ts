/** A training loop over a network that loses answers: what arrived is not done twice, and where nobody knows, the session says so. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import { createClient, type LocalService, startLocal, TrainableModel } from '../../../src/rl.js'
import { type FaultyProxy, startFaultyProxy } from '../../support/faulty-proxy.js'

const ROWS = [{ prompt: [1, 20], tokens: [30, 40, 50, 60] }]

let local: LocalService
let proxy: FaultyProxy
let models = 0
beforeAll(async () => {
  local = await startLocal({ baseModels: ['trainyard/tiny-random'], logger: createLogger({ level: 'silent' }) })
  proxy = await startFaultyProxy(local.url)
})
afterAll(async () => {
  await proxy.stop()
  await local.close()
})
afterEach(() => proxy.choose(() => null))

/** @param maxRetries default the client's own, 2 */
async function openSession(maxRetries = 2) {
  models += 1
  const client = createClient({ baseUrl: proxy.url, apiKey: local.apiKey, maxRetries, sleep: () => Promise.resolve() })
  const options = { name: `loop-${models}`, baseModel: 'trainyard/tiny-random' }
  return await (await new TrainableModel(client, options).register()).session({ rank: 4, seed: 1 })
}

async function losses(): Promise<readonly number[]> {
  // chance may lose the answers to one request several times
  const session = await openSession(12)
  const steps = Array.from({ length: 3 }, () =>
    Promise.all([session.forwardBackward(ROWS, 'cross_entropy'), session.optimStep({ learningRate: 0.01 })]),
  )
  const results = await Promise.all(steps)
  const [sample] = await session.sample([1], { maxTokens: 3, seed: 1 })
  const [scores] = await session.logprobs(ROWS)
  await session.close()
  return [...results.map(([{ loss }]) => loss), ...(sample?.tokens ?? []), ...(scores ?? [])]
}

test('a request whose answer is lost is sent again and carried out once: the numbers are those of a good network', async () => {
  const undisturbed = await losses()
  const before = proxy.seen.length
  const lost = new Set<string>()
  // the first answer of every kind of request, and later that of every third
  proxy.choose(({ url = '' }, count) => {
    if (!url.startsWith('/api/v1/') || url.endsWith('create_session') || (lost.has(url) && count % 3 !== 0)) return null
    lost.add(url)
    return { kind: 'lose answer' }
  })
  expect(await losses()).toEqual(undisturbed)
  expect([...lost]).toContain('/api/v1/forward_backward')
  expect(proxy.seen.length - before).toBeGreaterThan(before)
})

test('a busy server is asked again; a request that it refused to the last has not used its number', async () => {
  const session = await openSession()
  let left = 2
  const busy = ({ url = '' }: { readonly url?: string | undefined }) =>
    url.endsWith('/forward_backward') && left-- > 0 ? ({ kind: 'answer', status: 503 } as const) : null
  proxy.choose(busy)
  const { loss } = await session.forwardBackward(ROWS, 'cross_entropy')
  left = 3
  await expect(session.forwardBackward(ROWS, 'cross_entropy')).rejects.toMatchObject({ status: 503 })
  expect((await session.forwardBackward(ROWS, 'cross_entropy')).loss).toBe(loss)
  await session.close()
})

test('where nobody knows whether a request arrived the session ends, says why, and can still be closed', async () => {
  const session = await openSession()
  proxy.choose(({ url = '' }) => (url.endsWith('/optim_step') ? { kind: 'lose answer' } : null))
  await session.forwardBackward(ROWS, 'cross_entropy')
  await expect(session.optimStep({ learningRate: 0.01 })).rejects.toMatchObject({ code: 'connection_failed' })
  await expect(session.logprobs(ROWS)).rejects.toMatchObject({ code: 'session_lost' })
  await session.close()
  await expect(session.logprobs(ROWS)).rejects.toMatchObject({ code: 'session_closed' })
})
