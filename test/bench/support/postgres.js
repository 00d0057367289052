/**
 * A PostgreSQL server of its own for a bench, with its own settings for the disk: what a commit waits for is part of what is measured.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { treeSeconds } from './processes.js'

const DEBIAN = '/usr/lib/postgresql'

/** Where its programs lie, or null. */
function findPrograms() {
  if (!existsSync(DEBIAN)) return null
  const folders = readdirSync(DEBIAN).map((version) => path.join(DEBIAN, version, 'bin'))
  return folders.filter((folder) => existsSync(path.join(folder, 'initdb'))).at(-1) ?? null
}

/** It refuses to run as root. */
function unprivileged() {
  if (process.getuid() !== 0) return {}
  const id = (flag) => Number.parseInt(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout, 10) || 65_534
  return { uid: id('-u'), gid: id('-g') }
}

/** @returns null where PostgreSQL is not installed */
export async function startPostgres() {
  const bin = findPrograms()
  if (bin === null) return null
  const folder = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-pg-'))
  const user = unprivileged()
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = path.join(folder, 'data')
  const settings = { ...user, cwd: folder, encoding: 'utf8' }
  const made = spawnSync(
    path.join(bin, 'initdb'),
    ['-D', data, '-U', 'bench', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C.UTF-8'],
    settings,
  )
  if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`)
  const server = spawn(
    path.join(bin, 'postgres'),
    ['-D', data, '-c', 'listen_addresses=', '-c', `unix_socket_directories=${folder}`],
    { ...user, cwd: folder, stdio: 'ignore' },
  )
  const query = (statement, database = 'postgres') =>
    spawnSync('psql', ['-h', folder, '-U', 'bench', '-Atc', statement, database], settings)
  for (let tries = 0; query('select 1').status !== 0; tries += 1) {
    if (tries > 300) throw new Error('PostgreSQL does not answer')
    await sleep(100)
  }
  let count = 0
  return {
    createDatabase() {
      count += 1
      const { status, stderr } = query(`create database bench${count}`)
      if (status !== 0) throw new Error(stderr)
      return `postgres://bench@/bench${count}?host=${folder}`
    },
    query: (statement, database) => query(statement, database).stdout,
    /** Processor seconds so far of its processes, those that ended included. */
    processorSeconds: () => treeSeconds(server.pid),
    async stop() {
      const ended = once(server, 'exit')
      server.kill('SIGQUIT')
      await ended
      rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
    },
  }
}
