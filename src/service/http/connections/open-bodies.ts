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
  state: 'waiting' | 'begun' | 'over'
}

export function createOpenBodies(most = MOST): OpenBodies {
  const networks = new Map<string, { begun: number; readonly waiting: Entry[] }>()

  return {
    enter: (name, { begin, isGone }) => {
      const network = networks.get(name) ?? { begun: 0, waiting: [] }
      networks.set(name, network)

      function leave(): void {
        const wasBegun = entry.state === 'begun'
        entry.state = 'over'
        if (!wasBegun) return
        network.begun -= 1
        // those that ended while they waited are still among them
        let next = network.waiting.pop()
        while (next !== undefined && (next.state === 'over' || next.isGone())) next = network.waiting.pop()
        if (next !== undefined) next.begin()
        else if (network.begun === 0) networks.delete(name)
      }

      const entry: Entry = {
        state: 'waiting',
        isGone,
        begin: () => {
          entry.state = 'begun'
          network.begun += 1
          begin(leave)
        },
      }
      if (network.begun < most) entry.begin()
      else network.waiting.push(entry)
      return leave
    },
  }
}
