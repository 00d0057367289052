/**
 * Who holds a server's connections, and which of them gives way to one more. Knows no socket and no request.
 *
 * A connection belongs to the network it comes from until a request of it has shown a key, then to the entity of that key;
 * while a request runs that brings none, to its network again. Those without a
 * key have an eighth of all places: beyond it they give way before anybody else. Of entities each may run requests on as many connections as are left for the others: one takes half,
 * two take a third each, and some are always left (the dynamic thresholds of Choudhury and Hahne, 1998, with a factor of 1).
 */

/** One connection's place. Changed by `Places` alone. */
export interface Place {
  /** The network it comes from; of a proxy that is trusted, that of whoever it forwards for, while a request runs. */
  network: string
  /** Whose key it has shown. */
  entity: string | null
  readonly isProxy: boolean
}

export interface PlacesOptions<T> {
  readonly maxPlaces: number
  /** Whether nothing can be done for it before its client has: it asks nothing, its body is on its way, or its answer is not read. */
  readonly isWaiting: (holder: T) => boolean
}

export interface Places<T extends Place> {
  size(): number
  /** A new connection, which asks for nothing yet. */
  open(holder: T): void
  /** A request begins. @param network of whoever sent it. @param bringsKey whether it says whose it is, which is not proven yet */
  begin(holder: T, network: string, bringsKey: boolean): void
  /** The request that runs has shown a key. @returns false where the entity's part is taken */
  prove(holder: T, entity: string): boolean
  /** Its request is over. */
  rest(holder: T): void
  /** Whether a request that brings a key stands still because of its client. */
  setStalled(holder: T, isStalled: boolean): void
  close(holder: T): void
  /** Which gives way to one more, where all places are taken; undefined: none does. */
  next(): T | undefined
}

/** Places of those without a key, as a part of all. */
const KEYLESS_PART = 1 / 8
/** Owner of what trusted proxies keep open between requests. */
const PROXIES = 'trusted proxies'

export function createPlaces<T extends Place>({ maxPlaces, isWaiting }: PlacesOptions<T>): Places<T> {
  const share = Math.max(1, Math.floor(maxPlaces * KEYLESS_PART))
  const all = new Set<T>()
  // of those with a key: between two requests, in one that its client holds up, in one
  const [keyless, idle, stalled, busy] = [createOwned<T>(), createOwned<T>(), createOwned<T>(), createOwned<T>()]

  function leave(holder: T): void {
    for (const owned of [keyless, idle, stalled, busy]) owned.delete(holder)
  }

  const firstWaiting = (holders: Iterable<T>): T | undefined => {
    for (const holder of holders) if (isWaiting(holder)) return holder
    return undefined
  }

  return {
    size: () => all.size,
    open: (holder) => {
      all.add(holder)
      if (holder.isProxy) idle.add(PROXIES, holder)
      else keyless.add(holder.network, holder)
    },
    begin: (holder, network, bringsKey) => {
      if (!all.has(holder)) return
      leave(holder)
      // of a client that has shown its key once the next one is soon proven
      if (bringsKey && holder.entity !== null) return
      holder.network = network
      keyless.add(network, holder)
    },
    prove: (holder, entity) => {
      if (!all.has(holder)) return true
      leave(holder)
      holder.entity = entity
      if (busy.sizeOf(entity) + 1 > Math.max(1, maxPlaces - busy.size())) return false
      busy.add(entity, holder)
      return true
    },
    rest: (holder) => {
      if (!all.has(holder)) return
      leave(holder)
      if (holder.isProxy) holder.entity = null
      if (holder.isProxy) idle.add(PROXIES, holder)
      else if (holder.entity === null) keyless.add(holder.network, holder)
      else idle.add(holder.entity, holder)
    },
    setStalled: (holder, isStalled) => {
      if (!isStalled) stalled.delete(holder)
      else if (all.has(holder) && !keyless.has(holder) && !stalled.has(holder))
        stalled.add(holder.entity ?? holder.network, holder)
    },
    close: (holder) => {
      all.delete(holder)
      leave(holder)
    },
    next: () => {
      const crowd = keyless.size() > share ? keyless.largest() : []
      return (
        firstWaiting(crowd) ??
        first(idle.largest()) ??
        first(stalled.largest()) ??
        firstWaiting(keyless.largest()) ??
        first(crowd)
      )
    },
  }
}

/** Sets by owner; what came first stands first. */
function createOwned<T>() {
  const byOwner = new Map<string, Set<T>>()
  const owners = new Map<T, string>()
  return {
    size: () => owners.size,
    sizeOf: (owner: string) => byOwner.get(owner)?.size ?? 0,
    has: (item: T) => owners.has(item),
    add: (owner: string, item: T): void => {
      const items = byOwner.get(owner) ?? new Set()
      byOwner.set(owner, items.add(item))
      owners.set(item, owner)
    },
    delete: (item: T): void => {
      const owner = owners.get(item)
      if (owner === undefined) return
      owners.delete(item)
      const items = byOwner.get(owner)
      items?.delete(item)
      if (items?.size === 0) byOwner.delete(owner)
    },
    /** What the owner has that has most. */
    largest: (): ReadonlySet<T> => {
      let most: ReadonlySet<T> = new Set()
      for (const items of byOwner.values()) if (items.size > most.size) most = items
      return most
    },
  }
}

function first<T>(items: Iterable<T>): T | undefined {
  const [item] = items
  return item
}
