/**
 * Bodies that come without a key: of each network a few are read at once, the newest first, and the others wait with their connection.
 *
 * Each is given up after a second (`bodies.ts`). A crowd whose bodies never end would be answered so a few times a second each, and come
 * again; like this it waits, which costs nothing, and whoever is honest comes last and is read next.
 */

export interface OpenRequest {
  begin(leave: () => void): void
  isGone(): boolean
}

export interface OpenBodies {
  /**
   * Calls `begin` when it is its turn, perhaps at once; not for what is gone by then.
   *
   * @returns what is to be called when the request is over, or has shown a key; harmless twice
   */
  enter(network: string, request: OpenRequest): () => void
}

/** Of one network, at once. */
const MOST = 16

interface Entry {
  readonly begin: () => void
  readonly isGone: () => boolean
  isBegun: boolean
}

export function createOpenBodies(most = MOST): OpenBodies {
  const networks = new Map<string, { begun: number; readonly waiting: Set<Entry> }>()

  return {
    enter: (name, { begin, isGone }) => {
      const network = networks.get(name) ?? { begun: 0, waiting: new Set() }
      networks.set(name, network)

      function leave(): void {
        network.waiting.delete(entry)
        const wasBegun = entry.isBegun
        entry.isBegun = false
        if (!wasBegun) return
        network.begun -= 1
        const next = takeNewest(network.waiting)
        if (next !== undefined) next.begin()
        else if (network.begun === 0) networks.delete(name)
      }

      const entry: Entry = {
        isBegun: false,
        isGone,
        begin: () => {
          entry.isBegun = true
          network.begun += 1
          begin(leave)
        },
      }
      if (network.begun < most) entry.begin()
      else network.waiting.add(entry)
      return leave
    },
  }
}

/** Takes out what came last, and what is gone by now. */
function takeNewest(waiting: Set<Entry>): Entry | undefined {
  for (const entry of [...waiting].reverse()) {
    waiting.delete(entry)
    if (!entry.isGone()) return entry
  }
  return undefined
}
