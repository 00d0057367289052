/**
 * Walls around a program of somebody else (`--isolate`, Linux): no network but a door to recorded rollouts, no process but its
 * own, none of our folders with keys and data. Made of the namespaces of `unshare`, so without rights and without a daemon; what
 * else there is on the disk stays readable.
 *
 * The door is a port of 127.0.0.1 inside that leads through a socket of the file system to a server here, which passes on what
 * begins with `/r/` and refuses the rest: the server's own API is not behind it.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { InvalidRequestError } from '#base/errors/errors.js'
import { readProgram } from '#base/processes/start-process.js'
import { packageRoot } from '#base/util/package-root.js'
import { resolvePaths } from '#cli/config/paths.js'
import type { SourceSetup } from './source.js'

/** Namespaces of users, network, mounts and processes, all of which end with the first process in them. */
const UNSHARE = [
  ...['--user', '--map-root-user', '--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child'],
] as const
/** Of the door, inside, where nothing else listens. */
const PORT = 8080
const PROBE_MS = 10_000
/** What is behind the door. */
const OPEN = '/r/'

type Wanted = Pick<SourceSetup, 'isolate' | 'dataDir' | 'environment'>

/** @throws {InvalidRequestError} `isolation_missing` where this system has no way to, with its reason */
export async function assertWalls({ isolate, environment }: Wanted): Promise<void> {
  if (!isolate) return
  const refuse = (reason: string): never => {
    throw new InvalidRequestError('isolation_missing', `--isolate: ${reason}`, {
      param: '--isolate',
      hint: 'leave it out, or run this in a container without a network',
    })
  }
  if (process.platform !== 'linux') refuse('walls around a process need Linux')
  const tried = ['unshare', ...UNSHARE, '--', 'ip', 'link', 'set', 'lo', 'up'] as const
  await readProgram(tried[0], tried.slice(1), { environment, needs: ['calling'], timeoutMs: PROBE_MS }).catch(
    (error: unknown) =>
      refuse(`${tried.join(' ')} fails here: ${error instanceof Error ? error.message : String(error)}`),
  )
}

/** The command behind walls; as it is where none are wanted. */
export function walled(
  command: readonly [string, ...string[]],
  { isolate, dataDir, environment }: Wanted,
  door: Door | null = null,
): readonly [string, ...string[]] {
  if (!isolate) return command
  const { configFile, dataDir: usual, stateDir } = resolvePaths(environment)
  const plan = {
    hidden: [...new Set([dataDir, usual, stateDir, dirname(configFile)])],
    // interpreters that `--install` made
    kept: [join(dataDir, 'python')],
    door: door === null ? null : { socket: door.socket, port: PORT },
    command,
  }
  const inside = join(packageRoot(), 'src', 'plugins', 'environments', 'walls', 'inside.mjs')
  return ['unshare', ...UNSHARE, '--', process.execPath, inside, JSON.stringify(plan)]
}

/** The way out of the walls. */
export interface Door {
  /** Of the file system; empty where there are no walls. */
  readonly socket: string
  /** The address as it is called inside; from then on the door leads to its server. */
  inside(address: string): string
  close(): Promise<void>
}

/** A door for whoever asks the model itself; without walls addresses are as they are. */
export async function openDoor({ isolate }: Wanted): Promise<Door> {
  if (!isolate) return { socket: '', inside: (address) => address, close: async () => undefined }
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-door-'))
  const socket = join(folder, 'door')
  let target: URL | null = null
  const server = createServer((incoming, outgoing) => {
    pass(incoming, outgoing, target).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(socket, resolve)
  })
  return {
    socket,
    inside(address) {
      target = new URL(address)
      return `http://127.0.0.1:${PORT}${target.pathname}`
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function pass(incoming: IncomingMessage, outgoing: ServerResponse, target: URL | null): Promise<void> {
  const { method, headers, url = '' } = incoming
  // what a path means is what the server reads: none that climbs
  const path = URL.canParse(url, 'http://inside') ? new URL(url, 'http://inside') : null
  if (target === null || path === null || !path.pathname.startsWith(OPEN)) {
    const message = `${url.slice(0, 80)} is not behind the door of --isolate: only addresses of recorded rollouts are`
    outgoing.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message } }))
    return
  }
  const send = target.protocol === 'https:' ? httpsRequest : httpRequest
  const sent = send(new URL(`${path.pathname}${path.search}`, target), {
    method,
    headers: { ...headers, host: target.host },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve).once('error', reject)
  })
  outgoing.once('close', () => sent.destroy())
  await pipeline(incoming, sent)
  const response = await answered
  outgoing.writeHead(response.statusCode ?? 502, response.headers)
  await pipeline(response, outgoing)
}
