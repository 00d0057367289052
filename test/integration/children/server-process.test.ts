/** A server that a command starts for itself: it is stopped by a message, as it must be where there are no signals, and in order. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startServerProcess } from '#plugins/demo/server-process.js'

test('it stops in order when it is told to, without a signal', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
  const environment = { ...process.env, XDG_STATE_HOME: join(folder, 'state') }
  const flags = ['--data-dir', join(folder, 'data'), '--train-workers', '0']
  const server = await startServerProcess({ flags, environment, signal: new AbortController().signal })
  const records = (): string[] => readdirSync(join(folder, 'state/trainyard/servers'))
  expect(records()).toHaveLength(1)
  await server.stop()
  // a server that is killed leaves its record
  expect(records()).toEqual([])
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})
