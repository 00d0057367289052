/**
 * Many kills of a gateway's server while clients ask.
 */
import { it } from 'vitest'
import { killWhileCallsCome } from './killed.js'
import { startUpstream } from './upstream.js'

it('ten kills: those calls that its clients have are whole rows or none', async () => {
  const upstream = await startUpstream()
  await killWhileCallsCome(upstream, 10)
  await upstream.close()
})
