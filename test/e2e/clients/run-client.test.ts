/**
 * How tests run programs of clients: what is said of one that fails or hangs, and which end by a signal counts as an end.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { runClient, seenByClient } from '../../support/clients/run-client.js'

const PYTHON = path.resolve(import.meta.dirname, '../../../.cache/tinker-venv/bin/python')
const LIMIT = { timeoutMs: 60_000 }

/** What Python writes of threads at a fatal signal, and then dies of it. */
const aborted = (threads: number, signal = 'ABRT') =>
  [
    'echo \'{"seen": 1}\'',
    'echo "Fatal Python error: Aborted" >&2',
    ...Array(threads).fill('printf "\\nThread 0x01 (most recent call first):\\n  <no Python frame>\\n" >&2'),
    `kill -${signal} $$`,
  ].join('; ')

test('a program that fails: exit code, stdout and stderr', async () => {
  await expect(runClient('sh', ['-c', 'echo half; echo why >&2; exit 3'], LIMIT)).rejects.toThrow(
    /ended with code 3\nstdout:\nhalf\n\nstderr:\nwhy/,
  )
  await expect(runClient('/no/such/program', [], LIMIT)).rejects.toThrow('ENOENT')
})

test('an abort counts as an end only where it may, and while Python is torn down', async () => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
  const run = { ...LIMIT, mayAbortAtExit: true }
  expect(await seenByClient('sh', ['-c', aborted(1)], run)).toEqual({ seen: 1 })
  expect(warned).toHaveBeenCalledWith(expect.stringContaining('ended with signal SIGABRT after its work was done'))
  // what is torn down may be gone while its stack is written
  expect(await seenByClient('sh', ['-c', aborted(1, 'BUS')], run)).toEqual({ seen: 1 })
  await expect(runClient('sh', ['-c', aborted(1)], LIMIT)).rejects.toThrow('ended with signal SIGABRT')
  await expect(runClient('sh', ['-c', aborted(2)], run)).rejects.toThrow('ended with signal SIGABRT')
  await expect(runClient('sh', ['-c', 'kill -ABRT $$'], run)).rejects.toThrow('ended with signal SIGABRT')
  await expect(runClient('sh', ['-c', 'kill -BUS $$'], run)).rejects.toThrow('ended with signal SIGBUS')
})

test.skipIf(!existsSync(PYTHON))(
  'a Python program that hangs says where (skipped without .cache/tinker-venv, see .ci/run)',
  async () => {
    const script = 'import threading\nprint("began", flush=True)\nthreading.Event().wait()'
    await expect(runClient(PYTHON, ['-S', '-c', script], { timeoutMs: 10_000, mayAbortAtExit: true })).rejects.toThrow(
      /had not ended after 10 s\nstdout:\nbegan\n[\s\S]*in wait\n[\s\S]*File "<string>", line 3 in <module>/,
    )
  },
)
