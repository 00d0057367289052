/**
 * Several servers, each a process of its own with an empty data directory, on one PostgreSQL database and one bucket, and a client that asks
 * one after the other, as a balancer does.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../local-postgres.js'
import { S3_SERVERS, type S3Server } from '../local-s3.js'
import { type KillableServer, type KillableServerOptions, startKillableServer } from '../service/killable-server.js'

// the one that people run, where it is installed
const STORE = [...S3_SERVERS].reverse().find(({ isThere }) => isThere)

/** Why there can be none; null: there can. */
export const NO_SEVERAL_SERVERS = !hasPostgres()
  ? NO_POSTGRES
  : STORE === undefined
    ? 'no S3 server is installed (.ci/run installs SeaweedFS and moto)'
    : null

export interface SharedParts {
  readonly postgres: LocalPostgres
  /** What a server needs for a database and a bucket of its own group. */
  newGroup(): Promise<ServerParts>
  stop(): Promise<void>
}

export type ServerParts = Pick<KillableServerOptions, 'database' | 'blobStore' | 'seams'> & {
  readonly database: string
}

export async function startSharedParts(): Promise<SharedParts> {
  if (STORE === undefined) throw new Error(String(NO_SEVERAL_SERVERS))
  const starting = STORE.start()
  const postgres = await startPostgres().catch(async (error: unknown) => {
    await (await starting).stop()
    throw error
  })
  const store: S3Server = await starting
  await store.makeBucket('data')
  let count = 0
  return {
    postgres,
    newGroup: async () => {
      count += 1
      return {
        database: await postgres.createDatabase(),
        blobStore: `s3://data/group${count}?endpoint=${store.endpoint}&style=path`,
        seams: { environment: { ...process.env, ...store.environment } },
      }
    },
    stop: async () => {
      await store.stop()
      await postgres.stop()
    },
  }
}

/** A place in the group, whose server may be killed and started again. */
export interface Place {
  server: KillableServer | null
  readonly dataDir: string
}

export interface Group {
  readonly database: string
  readonly places: readonly Place[]
  readonly apiKey: string
  /** The server of a place. @throws {Error} while there is none */
  at(index: number): KillableServer
  start(index: number): Promise<KillableServer>
  kill(index: number): Promise<void>
  /**
   * Asks one server, and the next one if that cannot be reached or is not able to; a create needs a key to be made once.
   *
   * @returns the first answer that is none of those
   */
  ask<T>(path: string, request?: { readonly json?: object; readonly key?: string; readonly body?: string }): Promise<T>
  /** How often a server answered so. */
  readonly statuses: ReadonlyMap<number, number>
  stop(): Promise<void>
}

/** Starts one with each of these options, one after the other. */
export async function startGroup(
  parts: ServerParts,
  options: readonly Omit<KillableServerOptions, 'dataDir' | 'apiKey'>[],
): Promise<Group> {
  const places: Place[] = []
  const statuses = new Map<number, number>()
  let apiKey = ''
  let turn = 0

  async function start(index: number): Promise<KillableServer> {
    const place = places[index] as Place
    const server = await startKillableServer({
      threads: 1,
      ...parts,
      ...options[index],
      dataDir: place.dataDir,
      apiKey,
    })
    place.server = server
    if (apiKey === '') apiKey = server.apiKey
    return server
  }

  const group: Group = {
    database: parts.database,
    places,
    get apiKey() {
      return apiKey
    },
    statuses,
    at: (index) => {
      const { server } = places[index] as Place
      if (server === null) throw new Error(`server ${index} was killed`)
      return server
    },
    start,
    kill: async (index) => {
      const place = places[index] as Place
      const { server } = place
      place.server = null
      await server?.kill('SIGKILL')
    },
    ask: async <T>(path: string, { json, key, body }: { json?: object; key?: string; body?: string } = {}) => {
      for (let tries = 1; ; tries += 1) {
        turn += 1
        const { server } = places[turn % places.length] as Place
        try {
          if (server === null) throw new TypeError('killed')
          const response = await fetch(server.url + path, {
            method: json === undefined && body === undefined ? 'GET' : 'POST',
            headers: {
              authorization: `Bearer ${apiKey}`,
              ...(json === undefined ? {} : { 'content-type': 'application/json' }),
              ...(key === undefined ? {} : { 'idempotency-key': key }),
            },
            ...(json === undefined ? (body === undefined ? {} : { body }) : { body: JSON.stringify(json) }),
          })
          const text = await response.text()
          statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
          if (response.status === 200) return JSON.parse(text) as T
          if (response.status !== 503) throw new Error(`${path}: ${response.status} ${text}`)
        } catch (error) {
          // fetch's own error: nobody listens there, or the server was killed before it had answered
          if (!(error instanceof TypeError) || tries > 600) throw error
        }
        await sleep(50)
      }
    },
    stop: async () => {
      for (const { server, dataDir } of places) {
        await server?.kill('SIGTERM')
        await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
      }
    },
  }
  try {
    for (const index of options.keys()) {
      places.push({ server: null, dataDir: await mkdtemp(join(tmpdir(), `trainyard-server-${index}-`)) })
      await start(index)
    }
  } catch (error) {
    // nobody else knows of those that did start
    await group.stop()
    throw error
  }
  return group
}
