/** A command of the user's own, through a real shell. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { runProgram } from '#cli/local/user-program.js'
import { until } from '../../../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return !/^State:\s+Z/m.test(existsSync('/proc') ? readFileSync(`/proc/${pid}/status`, 'utf8') : '')
  } catch {
    return false
  }
}

/** A shell that waits for a program that it started in a shell of its own, whose process id is written to a file. */
const nested = (file: string): string => `sh -c 'echo $$ > ${file}; sleep 1000; true'; true`
const pidIn = (file: string): number => Number(existsSync(file) && readFileSync(file, 'utf8'))

test('what it prints comes back', async () => {
  const options = { timeoutMs: 60_000, signal: new AbortController().signal }
  expect(await runProgram('cat; echo end', 'input ', options)).toBe('input end\n')
  await expect(runProgram('echo no >&2; exit 3', '', options)).rejects.toThrow('ended with 3: no')
})

test('interrupted, it ends with all that it started', async () => {
  const file = join(folder, 'interrupted')
  const controller = new AbortController()
  const ended = runProgram(nested(file), '', { timeoutMs: 600_000, signal: controller.signal })
  await until(() => pidIn(file) > 0, 'the inner program')
  controller.abort(new Error('enough'))
  await expect(ended).rejects.toThrow('enough')
  await until(() => !isAlive(pidIn(file)), 'its end')
})

test('so it does when its time is over', async () => {
  const file = join(folder, 'late')
  await expect(runProgram(nested(file), '', { timeoutMs: 1500, signal: new AbortController().signal })).rejects.toThrow(
    'no result after 1.5 s',
  )
  // a machine so busy that it never began has nothing to end
  await until(() => !(pidIn(file) > 0 && isAlive(pidIn(file))), 'its end')
})
