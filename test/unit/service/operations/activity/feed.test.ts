/**
 * The feed of what happens: in order, once, for whom it is, and bounded.
 */
import { describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { systemIds } from '#base/util/ids.js'
import type { Activity } from '#contract/wire/activity.js'
import { createActivityFeed, type Happening } from '#service/operations/activity/feed.js'

const TENANT = { entity: 'local', project: null }
const feedOf = (most?: number) => createActivityFeed({ clock: systemClock, ids: systemIds }, most)
const happening = (n: number, more: Partial<Happening> = {}): Happening => ({
  type: 'job.queued',
  owner: { entity: 'local', project: 'a' },
  modelId: 'm',
  data: { n },
  ...more,
})
const numbers = (events: readonly Activity[]) => events.map(({ type, data }) => data['n'] ?? type)

/** Reads `count` events and leaves. */
async function take(events: AsyncGenerator<Activity>, count: number): Promise<Activity[]> {
  const taken: Activity[] = []
  while (taken.length < count) {
    const next = await events.next()
    if (next.done === true) break
    taken.push(next.value)
  }
  return taken
}

describe('following', () => {
  it('begins with its place, then tells everything once and in order', async () => {
    const feed = feedOf()
    feed.publish(happening(0))
    const events = feed.follow(TENANT, {}, undefined, new AbortController().signal)
    expect(numbers(await take(events, 1))).toEqual(['ready'])
    feed.publish(happening(1))
    feed.publish(happening(2))
    expect(numbers(await take(events, 2))).toEqual([1, 2])
    const third = take(events, 1)
    feed.publish(happening(3))
    expect(numbers(await third)).toEqual([3])
  })

  it('goes on behind any event that is remembered, and says reset for every other place', async () => {
    const feed = feedOf(3)
    const signal = new AbortController().signal
    for (let n = 1; n <= 5; n += 1) feed.publish(happening(n))
    const remembered = feed.list(TENANT, {}).data
    expect(numbers(remembered)).toEqual([3, 4, 5])
    const [third] = remembered
    expect(numbers(await take(feed.follow(TENANT, {}, third?.id, signal), 2))).toEqual([4, 5])
    const epoch = third?.id.split('.')[0]
    // the one before the oldest that is remembered: nothing was missed
    expect(numbers(await take(feed.follow(TENANT, {}, `${epoch}.2`, signal), 3))).toEqual([3, 4, 5])
    for (const place of [`${epoch}.1`, `${epoch}.6`, `${epoch}.x`, 'other.4', '', `${epoch}.4.5`]) {
      const [reset] = await take(feed.follow(TENANT, {}, place, signal), 1)
      expect(reset, place).toMatchObject({ type: 'reset', id: `${epoch}.5` })
      expect(() => feed.list(TENANT, { after: place })).toThrow('after must be the id')
    }
  })

  it('holds nothing for a reader that does not read: it is told reset, and then what is new', async () => {
    const feed = feedOf(10)
    const slow = feed.follow(TENANT, {}, undefined, new AbortController().signal)
    await take(slow, 1)
    for (let n = 1; n <= 100; n += 1) feed.publish(happening(n))
    expect(numbers(await take(slow, 1))).toEqual(['reset'])
    feed.publish(happening(101))
    expect(numbers(await take(slow, 1))).toEqual([101])
  })

  it('ends when it is told to, also while it waits', async () => {
    const feed = feedOf()
    const ending = new AbortController()
    const events = feed.follow(TENANT, {}, undefined, ending.signal)
    await take(events, 1)
    const next = events.next()
    ending.abort()
    expect((await next).done).toBe(true)
  })
})

describe('what is told', () => {
  it('is of the entity and project, of the topics and the model that were asked for', () => {
    const feed = feedOf()
    feed.publish(happening(1))
    feed.publish(happening(2, { owner: { entity: 'local', project: 'b' } }))
    feed.publish(happening(3, { owner: { entity: 'others', project: 'a' } }))
    feed.publish(happening(4, { type: 'log.created', modelId: 'n' }))
    feed.publish(happening(5, { type: 'base_model.progress', owner: null, modelId: null }))
    expect(numbers(feed.list(TENANT, {}).data)).toEqual([1, 2, 4, 5])
    expect(numbers(feed.list({ entity: 'local', project: 'b' }, {}).data)).toEqual([2, 5])
    expect(numbers(feed.list({ entity: 'others', project: null }, {}).data)).toEqual([3, 5])
    expect(numbers(feed.list(TENANT, { topics: ['log', 'base_model'] }).data)).toEqual([4, 5])
    expect(numbers(feed.list(TENANT, { model_id: 'n' }).data)).toEqual([4, 5])
  })

  it('comes in pages, each behind the one before', () => {
    const feed = feedOf()
    for (let n = 1; n <= 5; n += 1) feed.publish(happening(n))
    const first = feed.list(TENANT, { limit: 2 })
    expect([numbers(first.data), first.has_more]).toEqual([[1, 2], true])
    const rest = feed.list(TENANT, { limit: 3, after: first.last_id })
    expect([numbers(rest.data), rest.has_more]).toEqual([[3, 4, 5], false])
    expect(feed.list(TENANT, { after: rest.last_id }).data).toEqual([])
  })
})
