/**
 * A server that was started with `nice`: what it starts is less urgent than it is, for a higher priority is refused to all but root.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const DIST = join(import.meta.dirname, '../../../dist/src')
const SCRIPT = `
  import { spawn } from 'node:child_process'
  import { once } from 'node:events'
  import { getPriority } from 'node:os'
  import { lowerThreadPriority } from '${DIST}/base/util/thread-priority.js'
  import { stepBack } from '${DIST}/base/processes/child.js'
  const child = spawn('sleep', ['100'])
  await once(child, 'spawn')
  stepBack(child)
  const [own, ofChild] = [getPriority(), getPriority(child.pid)]
  child.kill()
  lowerThreadPriority(5)
  const lowered = getPriority()
  lowerThreadPriority(10)
  console.log(JSON.stringify({ own, ofChild, lowered, least: getPriority() }))
`

it.skipIf(process.platform !== 'linux')('stand behind the server that starts them, whatever its own', async () => {
  const node = [process.execPath, '--input-type=module', '-e', SCRIPT]
  const { stdout } = await promisify(execFile)('nice', ['-n', '7', ...node])
  const { own, ...others } = JSON.parse(stdout) as Record<'own' | 'ofChild' | 'lowered' | 'least', number>
  expect(own).toBeGreaterThanOrEqual(7)
  expect(others).toEqual({ ofChild: Math.min(19, own + 3), lowered: Math.min(19, own + 5), least: 19 })
})
