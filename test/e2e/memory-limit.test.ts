/**
 * The first demo in a container's memory: a real memory group of 512 MB whose room is full of files already. Nothing is refused, and
 * the system ends no process. Skipped where no memory group can be made (only root may).
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../support/until.js'

const ROOT = join(import.meta.dirname, '../..')
const MB = 2 ** 20
const LIMIT = 512 * MB

interface MemoryGroup {
  readonly path: string
  readonly procs: string
  /** Processes that the system ended for want of memory. */
  killed(): number
}

/** Null where the system does not let us. */
function makeGroup(): MemoryGroup | null {
  const [parent, limitFile, eventsFile] = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes')
    ? ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'memory.oom_control']
    : ['/sys/fs/cgroup', 'memory.max', 'memory.events']
  const path = join(parent, `trainyard-test-${process.pid}`)
  try {
    mkdirSync(path)
    writeFileSync(join(path, limitFile), String(LIMIT))
  } catch {
    if (existsSync(path)) rmdirSync(path)
    return null
  }
  return {
    path,
    procs: join(path, 'cgroup.procs'),
    killed: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(path, eventsFile), 'utf8'))?.[1]),
  }
}

const group = makeGroup()

test.skipIf(group === null)('the demo learns in 512 MB full of cached files, and nothing is ended', async () => {
  const { path, procs, killed } = group as MemoryGroup
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
  const file = join(folder, 'cached')
  // files read inside the group count as its memory until the system takes them back
  const fill = `head -c ${LIMIT} /dev/zero > ${file} && cat ${file} > /dev/null`
  expect(spawnSync('sh', ['-c', `echo $$ > ${procs} && ${fill}`]).status).toBe(0)
  const demo = ['demo', '--seed', '1', '--steps', '3', '--json', '--data-dir', join(folder, 'data')]
  const command = `echo $$ > ${procs} && exec ${process.execPath} ${join(ROOT, 'bin/trainyard.js')} ${demo.join(' ')}`
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let errors = ''
  child.stdout.on('data', (data) => {
    output += data.toString()
  })
  child.stderr.on('data', (data) => {
    errors += data.toString()
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  const events = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { object: string })
  const jobs = events.filter(({ object }) => object === 'demo.step').length
  expect([code, jobs, killed()], errors).toEqual([0, 3, 0])
  await until(() => readFileSync(procs, 'utf8') === '', 'all its processes gone')
  rmdirSync(path)
  rmSync(folder, { recursive: true, force: true })
})
