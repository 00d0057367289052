/** A gateway's server that is killed once: what `kills.test.ts` does ten times at night. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { killWhileCallsCome } from './killed.js'
import { type FakeUpstream, startUpstream } from './upstream.js'

let upstream: FakeUpstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

it('while calls come: those that its clients have are whole rows or none, and the next server goes on', async () => {
  await expect(killWhileCallsCome(upstream, 1)).resolves.toBeUndefined()
})
