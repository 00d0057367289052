/**
 * A Ray cluster on this machine, with token authentication: a head without processors, and nodes that come and go.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { packageRoot } from '#base/util/package-root.js'
import { until } from '../until.js'

const RAY = join(packageRoot(), '.cache', 'ray-venv', 'bin', 'ray')
export const NO_RAY = 'no Ray in .cache/ray-venv, or CI_HEAVY is not 1: CI_HEAVY=1 .ci/run installs it'
export const hasRay = process.env['CI_HEAVY'] === '1' && existsSync(RAY)
/** A token of Ray has some length at least. */
export const RAY_TOKEN = 'a-token-of-this-test-and-of-nothing-else'

export interface RayCluster {
  /** Of the dashboard. */
  readonly port: number
  /** Starts a node, which takes jobs after a while. @returns what kills it with all that it started */
  addNode(resources: Readonly<Record<string, number>>): Promise<() => Promise<void>>
  /** Kills the head with all that it started. */
  killHead(): Promise<void>
  stop(): Promise<void>
}

export async function startRayCluster(): Promise<RayCluster> {
  // sockets of Ray have long names, and the system's limit is short
  const directory = await mkdtemp('/tmp/ty-ray-')
  const [port, gcsPort, clientPort] = [await freePort(), await freePort(), await freePort()]
  const groups: ChildProcess[] = []

  function start(flags: readonly string[]): ChildProcess {
    const child = spawn(RAY, ['start', '--block', '--disable-usage-stats', ...flags], {
      env: { ...process.env, RAY_AUTH_MODE: 'token', RAY_AUTH_TOKEN: RAY_TOKEN },
      stdio: 'ignore',
      // killed with all that it started
      detached: true,
    })
    groups.push(child)
    return child
  }

  async function answer(path: string): Promise<string> {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization: `Bearer ${RAY_TOKEN}` },
    })
    return response.text()
  }

  const ports = ['--min-worker-port', '0', '--max-worker-port', '0', '--dashboard-agent-listen-port']
  const head = ['--head', '--num-cpus', '0', '--port', String(gcsPort), '--ray-client-server-port', String(clientPort)]
  const dashboard = ['--dashboard-host', '127.0.0.1', '--dashboard-port', String(port), '--temp-dir', directory]
  const headProcess = start([...head, ...dashboard, ...ports, String(await freePort())])
  await until(async () => (await answer('/api/jobs/').catch(() => '')) === '[]', 'the head of Ray', 180_000)
  return {
    port,
    addNode: async (resources) => {
      const address = ['--address', `127.0.0.1:${gcsPort}`, '--num-cpus', '1', '--resources', JSON.stringify(resources)]
      const node = start([...address, ...ports, String(await freePort())])
      return () => end(node)
    },
    killHead: () => end(headProcess),
    stop: async () => {
      await Promise.all(groups.map(end))
      await rm(directory, { recursive: true, force: true, maxRetries: 20 })
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  process.kill(-child.pid, 'SIGKILL')
  await until(() => child.exitCode !== null || child.signalCode !== null, 'the end of Ray')
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
