/**
 * A server among those that share its database (`src/service/queue/peers.ts`): it renews its lease there, counts the servers
 * that live, and sends and receives their notices.
 *
 * A notice carries no data: whoever gets one reads the database, so a lost notice costs only a delay. A server whose
 * lease runs out while the database is away loses nothing: jobs and sessions are fenced by their attempts.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConflictError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { moveFile } from '#base/util/move-file.js'
import { packageVersion } from '#base/util/package-root.js'
import type { JoinedPeers, JoinOptions, PeerGroup, Topic } from '#service/queue/peers.js'
import { SERVER_ID_FILE } from '#service/storage/data-dir.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import type { SharedDatabase } from '#service/storage/remote-database.js'
import { listHeldElsewhere } from '#service/storage/training-sessions/training-sessions.js'
import { listServers, type ServerFacts } from '#service/storage/upkeep/servers.js'
import { deleteServer, forgetServers, renewServer } from './storage/servers.js'

export interface ServerGroup extends PeerGroup {
  /** Notice that the database passed on; null: its connection was lost meanwhile. */
  receive(payload: string | null): void
}

interface ServerGroupOptions {
  readonly db: DatabaseHandle
  /** The same, as servers share it. */
  readonly shared: Pick<SharedDatabase, 'notify' | 'onDuty' | 'lastingDuty'>
  readonly facts: ServerFacts
  readonly logger: Logger
  /** Default `SERVER_LEASE_MS`. */
  readonly leaseMs?: number | undefined
}

/** A server that said nothing for so long is gone. */
export const SERVER_LEASE_MS = 15_000
/** Time in which notices are gathered: a job that ends says so three times. */
const GATHER_MS = 5
/** PostgreSQL passes on 8000 bytes at once. */
const MOST_BYTES = 7000

/**
 * Opens the database as one of several servers. They know this one by an id that each start makes anew, so that what a dead process
 * left behind is not taken for a running one's, even if its directory was copied.
 *
 * @throws as `openDatabase` of the options
 */
export async function joinServers({
  openDatabase,
  directory,
  url,
  logger,
  leaseMs,
}: JoinOptions): Promise<JoinedPeers> {
  const id = systemIds.uuid()
  // the group begins when there is a database, which may have heard something by then: nobody waits for it yet
  let group: ServerGroup | null = null
  const database = await openDatabase({ id, onNotice: (payload) => group?.receive(payload) })
  const { db, shared } = database
  try {
    const before = await readServerId(directory)
    const earlierId = before === null || (await shared.isConnected(before)) ? null : before
    await writeServerId(directory, id)
    group = createServerGroup({ db, shared, facts: { id, url, version: packageVersion() }, logger, leaseMs })
    return { database, group, earlierId }
  } catch (error) {
    await database.close()
    throw error
  }
}

export function createServerGroup(options: ServerGroupOptions): ServerGroup {
  const { db, shared, facts, logger, leaseMs = SERVER_LEASE_MS } = options
  const listeners = new Map<Topic, ((id: string) => void)[]>()
  const missed: (() => void)[] = []
  let said = new Set<string>()
  let gathering: NodeJS.Timeout | null = null
  let sending: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | null = null
  let renewing: Promise<void> | null = null
  let count = 1

  async function renew(): Promise<void> {
    await renewServer(db, facts, leaseMs)
    const others = (await listServers(db)).filter(({ id }) => id !== facts.id).length
    if (others + 1 !== count) logger.info({ servers: others + 1 }, 'servers.changed')
    count = others + 1
  }

  function renewOrSay(): void {
    renewing ??= renew()
      .catch((error: unknown) => logger.warn({ err: error }, 'servers.not_renewed'))
      .finally(() => {
        renewing = null
      })
  }

  function send(): void {
    gathering = null
    const lines = [...said]
    said = new Set()
    for (const payload of inParts(facts.id, lines)) {
      // the others look at the database anyway, later
      sending = sending.then(() => shared.notify(payload)).catch(() => undefined)
    }
  }

  return {
    id: facts.id,
    isShared: true,
    leaseMs,
    count: () => count,
    tell: (topic, id = '') => {
      said.add(`${topic} ${id}`)
      gathering ??= setTimeout(send, GATHER_MS).unref()
    },
    on: (topic, listener) => void listeners.set(topic, [...(listeners.get(topic) ?? []), listener]),
    onMissed: (listener) => void missed.push(listener),
    heldByOthers: (sessionIds, options) => listHeldElsewhere(db, sessionIds, facts.id, options),
    onDuty: shared.onDuty,
    lastingDuty: shared.lastingDuty,
    receive: (payload) => {
      if (payload === null) {
        // it could not while the database was away, and the others ask for it
        if (timer !== null) renewOrSay()
        for (const listener of missed) listener()
        return
      }
      const [sender, ...lines] = payload.split('\n')
      if (sender === facts.id) return
      for (const line of lines) {
        const [topic, id = ''] = line.split(' ')
        for (const listener of listeners.get(topic as Topic) ?? []) listener(id)
      }
    },
    start: async () => {
      await forgetServers(db)
      const other = (await listServers(db)).find(({ version }) => minorOf(version) !== minorOf(facts.version))
      if (other !== undefined) {
        throw new ConflictError(
          'database_in_use',
          `a server of version ${other.version} works with this database, and this one is of version ${facts.version}`,
          {
            hint: `stop it first: what one begins the other must go on with; a server that was killed counts for ${leaseMs / 1000} s`,
          },
        )
      }
      await renew()
      timer = setInterval(renewOrSay, leaseMs / 3).unref()
    },
    stop: async () => {
      if (timer !== null) clearInterval(timer)
      if (gathering !== null) clearTimeout(gathering)
      send()
      await renewing
      await sending
      await deleteServer(db, facts.id).catch((error: unknown) => logger.warn({ err: error }, 'servers.not_left'))
    },
  }
}

/** `0.1` of `0.1.2`. */
function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

function inParts(sender: string, lines: readonly string[]): readonly string[] {
  const parts: string[] = []
  let part = sender
  for (const line of lines) {
    if (part.length + line.length + 1 > MOST_BYTES) {
      parts.push(part)
      part = sender
    }
    part += `\n${line}`
  }
  return part === sender ? parts : [...parts, part]
}

/** Of the start before; null: there was none. */
async function readServerId(root: string): Promise<string | null> {
  const text = await readFile(join(root, SERVER_ID_FILE), 'utf8').catch(() => '')
  return /^[0-9a-f-]{36}$/.test(text.trim()) ? text.trim() : null
}

async function writeServerId(root: string, id: string): Promise<void> {
  const path = join(root, SERVER_ID_FILE)
  await writeFile(`${path}.tmp`, `${id}\n`, { mode: 0o600, flush: true })
  await moveFile(`${path}.tmp`, path)
}
