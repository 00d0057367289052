/**
 * Who gives way to one more connection, and how many requests of an entity may hold one.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { createPlaces, type Place, type Places } from '#service/http/connections/connection-places.js'

interface Holder extends Place {
  readonly name: string
  isWaiting: boolean
}

let places: Places<Holder>
beforeEach(() => {
  places = createPlaces<Holder>({ maxPlaces: 32, isWaiting: ({ isWaiting }) => isWaiting })
})

let count = 0
function open(network: string, more: Partial<Holder> = {}): Holder {
  count += 1
  const holder = {
    name: `${network} ${count}`,
    network,
    entity: null,
    isProxy: false,

    isWaiting: true,
    ...more,
  }
  places.open(holder)
  return holder
}
const openMany = (network: string, length: number, more: Partial<Holder> = {}) =>
  Array.from({ length }, () => open(network, more))
function run(network: string, entity: string, more: Partial<Holder> = {}): boolean {
  const holder = open(network, { isWaiting: false, ...more })
  places.begin(holder, network, true)
  return places.prove(holder, entity)
}

describe('who gives way', () => {
  it('of a crowd without keys: the oldest that waits, of the network with most', () => {
    openMany('b', 3)
    const [first, second] = openMany('a', 4)
    if (first !== undefined) first.isWaiting = false
    expect(places.next()).toBe(second)
  })

  it('where few are without a key: who has a key and asks for nothing, of the entity with most', () => {
    const rest = (entity: string): Holder => {
      const holder = open('a')
      places.begin(holder, 'a', true)
      places.prove(holder, entity)
      places.rest(holder)
      return holder
    }
    rest('few')
    const first = rest('many')
    rest('many')
    open('b')
    expect(places.next()).toBe(first)
  })

  it('where all with a key run: those whose body or reader stands still, then who waits without a key', () => {
    const slow = open('a')
    places.begin(slow, 'a', true)
    places.prove(slow, 'slow')
    const keyless = open('b')
    expect(places.next()).toBe(keyless)
    places.setStalled(slow, true)
    expect(places.next()).toBe(slow)
    places.setStalled(slow, false)
    expect(places.next()).toBe(keyless)
  })

  it('nobody where all run with a key', () => {
    expect(run('a', 'x')).toBe(true)
    expect(places.next()).toBeUndefined()
  })
})

describe('those without a key', () => {
  const rest = (): Holder => {
    const holder = open('a')
    places.begin(holder, 'a', true)
    places.prove(holder, 'entity')
    places.rest(holder)
    return holder
  }

  it('go first beyond their eighth, and after those that ask for nothing within it', () => {
    const idle = rest()
    const [oldest] = openMany('b', 4)
    expect(places.next()).toBe(idle)
    open('c')
    expect(places.next()).toBe(oldest)
  })

  it('are those, too, that had shown one and ask without it now', () => {
    const [holder] = openMany('a', 1).map((each) => {
      places.begin(each, 'a', true)
      places.prove(each, 'entity')
      places.rest(each)
      return each
    })
    if (holder !== undefined) places.begin(holder, 'a', false)
    expect(places.next()).toBe(holder)
  })

  it('that bring one which is not proven, and stand still, give way as those with a key do', () => {
    const holder = rest()
    places.begin(holder, 'a', true)
    expect(places.next()).toBeUndefined()
    places.setStalled(holder, true)
    expect(places.next()).toBe(holder)
  })

  it('that come through a trusted proxy count by whom it names, and the proxy itself as nobody', () => {
    const [waiting] = openMany('proxy', 20, { isProxy: true })
    openMany('b', 3)
    expect(places.next()).toBe(waiting)
    const held = openMany('proxy', 6, { isProxy: true })
    for (const holder of held) places.begin(holder, 'client', false)
    expect(places.next()).toBe(held[0])
    for (const holder of held) places.rest(holder)
    expect(places.next()).toBe(waiting)
  })

  it('of whom all are being answered lose the oldest of the largest network', () => {
    openMany('b', 2, { isWaiting: false })
    const [oldest] = openMany('a', 3, { isWaiting: false })
    expect(places.next()).toBe(oldest)
  })
})

describe('an entity', () => {
  it('has as many as it leaves to others, two have a third each, and some are always left', () => {
    const most = (entity: string): number => {
      for (let n = 0; ; n += 1) if (!run('a', entity)) return n
    }
    expect([most('a'), most('b'), most('c')]).toEqual([16, 8, 4])
  })

  it('gets back what it gives back', () => {
    const holders = openMany('a', 16, { isWaiting: false })
    for (const holder of holders) {
      places.begin(holder, 'a', true)
      expect(places.prove(holder, 'x')).toBe(true)
    }
    expect(run('a', 'x')).toBe(false)
    for (const holder of holders.slice(0, 2)) places.rest(holder)
    expect(run('a', 'x')).toBe(true)
  })
})
