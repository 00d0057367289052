/**
 * Servers on the same database, as the rest of this server sees them: how many live, which work is theirs, what they are
 * told, and what one of them does at a time.
 *
 * A server alone has nobody to ask or to tell (`alone`); of several, a plugin's {@link PeerGroup} answers.
 */
import type { Logger } from '#base/logging/logger.js'
import type { LastingDuty, RemoteDatabase, RemoteDatabaseOptions } from '#service/storage/remote-database.js'

/**
 * `job`: something about it has changed; `queue`: somebody may find work; `session-free`: the same of a session; the others
 * are for who has the session.
 */
export const TOPICS = ['job', 'queue', 'adapter', 'session', 'session-free', 'session-close', 'session-end'] as const
export type Topic = (typeof TOPICS)[number]

export interface Peers {
  /** Id by which other servers know this one; null: there can be none. */
  readonly id: string | null
  /** Whether others may join at any time: what a worker of another machine sends may then come to any of them. */
  readonly isShared: boolean
  /** A server that said nothing for so long is gone. */
  readonly leaseMs: number
  /** Servers that live, this one included. */
  count(): number
  /** Tells the others. @param id never has white space */
  tell(topic: Topic, id?: string): void
  /** Hears the others. */
  on(topic: Topic, listener: (id: string) => void): void
  /** Hears that notices may have been missed. */
  onMissed(listener: () => void): void
  /**
   * Sessions of these that another living server has.
   *
   * @param options.countsSilent also those of servers that seem gone. Default false
   */
  heldByOthers(sessionIds: readonly string[], options?: { readonly countsSilent?: boolean }): Promise<readonly string[]>
  /** Does what one server at a time does. @returns null, with nothing done, while another does it */
  onDuty<T>(duty: string, action: () => Promise<T>): Promise<T | null>
  /** Duty of one server for as long as it lives, because it remembers what it did. */
  lastingDuty(duty: string): LastingDuty
}

/** The peers of one of several servers. */
export interface PeerGroup extends Peers {
  readonly id: string
  /** Joins the group. @throws {ConflictError} `database_in_use` where a server of another minor version is in it */
  start(): Promise<void>
  stop(): Promise<void>
}

/** A server that is about to work beside others. */
export interface JoinOptions {
  /** Opens the database that they share. */
  openDatabase(sharing: NonNullable<RemoteDatabaseOptions['sharing']>): Promise<RemoteDatabase>
  /** The server's own. */
  readonly directory: string
  /** Where others find it; null: not known. */
  readonly url: string | null
  readonly logger: Logger
  /** Default: the group's own. */
  readonly leaseMs?: number | undefined
}

/** A server that is known to the others and begins with `group.start`. */
export interface JoinedPeers {
  readonly database: RemoteDatabase
  readonly group: PeerGroup
  /** By which others knew the server of this directory before; null: they did not, or it still has its connection. */
  readonly earlierId: string | null
}

export type JoinPeers = (options: JoinOptions) => Promise<JoinedPeers>

/** The peers of a server that has none. */
export const alone: Peers = {
  id: null,
  isShared: false,
  leaseMs: 0,
  count: () => 1,
  tell: () => undefined,
  on: () => undefined,
  onMissed: () => undefined,
  heldByOthers: async () => [],
  onDuty: (_, action) => action(),
  lastingDuty: () => ({ run: (action) => action(), release: async () => undefined }),
}
