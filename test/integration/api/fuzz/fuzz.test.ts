/**
 * A fuzzer that knows the schemas: for every route it makes requests that nearly fit, mutates them, and sends them to a server in a
 * process of its own with its real engine and workers. Routes whose bodies have a form of their own are asked more often.
 *
 * What else comes in: what workers and engine nodes say is in `workers.test.ts`, what nodes answer in
 * `test/plugins/engine-nodes/strangers.test.ts`.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { Route } from '#contract/endpoints/table.js'
import { startFakeHub } from '../../../support/service/fake-hub.js'
import { API_ROUTES } from '../../../support/service/with-plugins.js'
import { countOf, expectFlat, type FuzzedService, type Held, IN_FLIGHT, SEED, startFuzzed } from './fuzzed-service.js'
import { createMutator } from './mutated-requests.js'
import { createOneOfEach } from './one-of-each.js'

const COUNT = countOf(900)
/** What exists is made anew after so many: requests delete some of it. */
const RENEW_AFTER = 5000
/** Asked as often as all others once: rows of training, conversations in other words, what is kept of answers. */
const DEEP =
  /forward_backward|messages|marks?$|probes|keep-rule|note$|preview\/(?:sessions|downloads)|asample|load_weights/
/** Its result may be one that comes late or never: its client goes away. */
const LATE = '/api/v1/retrieve_future'

let hub: Awaited<ReturnType<typeof startFakeHub>>
let fuzzed: FuzzedService
beforeAll(async () => {
  hub = await startFakeHub()
  // a small context: answers of any allowed length end soon
  const args = [
    ...['--base-model', 'trainyard/tiny-random', '--max-context-length', '96', '--threads', '1'],
    ...['--kv-cache-memory', '64mb', '--webhook-host', '127.0.0.1:9'],
  ]
  fuzzed = await startFuzzed(args, { HF_ENDPOINT: hub.url })
})
afterAll(async () => {
  await fuzzed.stop()
  hub.close()
})

it(`answers ${COUNT} mutated requests without a fault`, { timeout: 120_000 + COUNT * 200 }, async () => {
  const mutator = createMutator(createRng(SEED))
  const deep = API_ROUTES.filter(({ path }) => DEEP.test(path))
  const routes = [...API_ROUTES, ...deep, ...deep.filter(({ path }) => path.endsWith('forward_backward'))]
  const { service, seen } = fuzzed
  const create = (round: number) => createOneOfEach(service, round, COUNT * 200)
  let things = await create(0)

  async function ask(i: number): Promise<void> {
    const route = routes[i % routes.length] as Route
    const key = mutator.chance(0.98) ? service.key : null
    const sent = mutator.next(route, things.namesFor(route))
    const { bytes } = await fuzzed.ask(route, sent, {
      ...{ i, key },
      ...(route.path === LATE ? { patienceMs: 500 } : {}),
      // the check says that a part is slow, as on a busy machine
      unavailable: route.path === '/v1/system-check' ? [''] : [],
    })
    things.note(bytes.toString())
  }

  const marks: Held[] = []
  const markAt = [0.1, 0.5, 1].map((share) => Math.floor(COUNT * share))
  for (let i = 0; i < COUNT; i += 1) {
    // in waves: so the same seed asks the same in the same order
    if (COUNT > 10_000 && i % 2000 === 0) console.log(i, new Date().toISOString())
    if (i > 0 && i % RENEW_AFTER === 0) {
      await things.dispose()
      things = await create(i)
    }
    const wave = Array.from({ length: Math.min(IN_FLIGHT, COUNT - i) }, (_, at) => ask(i + at))
    await Promise.all(wave)
    await things.fillGaps()
    i += wave.length - 1
    if (i + 1 >= (markAt[marks.length] ?? Number.POSITIVE_INFINITY)) {
      marks.push(await fuzzed.resources())
      console.log(i + 1, JSON.stringify(marks.at(-1)))
    }
  }
  console.log(fuzzed.summary())
  expectFlat(marks[1] as Held, marks[2] as Held)
  expect((await fuzzed.send({ method: 'GET', address: '/v1/health' }, service.key)).status).toBe(200)
  expect(service.child.exitCode).toBe(null)
  expect(seen.get(200) ?? 0, JSON.stringify([...seen])).toBeGreaterThan(COUNT / 20)
  expect(fuzzed.routes.get('POST /api/v1/forward_backward')?.answered).toBeGreaterThan(0)
})
