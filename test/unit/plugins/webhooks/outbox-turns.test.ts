/**
 * Deliveries of several entities: receivers that never answer hold up their own entity, not another's.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { systemIds } from '#base/util/ids.js'
import { createOutbox, type Outbox } from '#plugins/webhooks/outbox.js'
import { createWebhookRules } from '#plugins/webhooks/start.js'
import { webhookTables } from '#plugins/webhooks/storage/tables.js'
import { claimDelivery, insertDelivery, insertWebhook, setAttempt } from '#plugins/webhooks/storage/webhooks.js'
import { DEFAULT_OUTBOX_TIMING } from '#plugins/webhooks/timing.js'
import { createJobFixture, type JobFixture } from '../../../support/service/job-fixture.js'
import { until } from '../../../support/until.js'

let fixture: JobFixture
let receiver: Server
let outbox: Outbox
let host: string
const held: ServerResponse[] = []
const answered: string[] = []

beforeEach(async () => {
  fixture = await createJobFixture()
  receiver = createServer((request, response) => {
    request.resume().once('end', () => {
      if (request.url === '/silent') return void held.push(response)
      answered.push(request.url ?? '')
      response.end()
    })
  })
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(receiver.address() as AddressInfo).port}`
  outbox = createOutbox({
    db: fixture.db,
    ids: systemIds,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    rules: createWebhookRules([host]),
    version: '0',
    timing: { ...DEFAULT_OUTBOX_TIMING, pollMs: 20 },
  })
})
afterEach(async () => {
  for (const response of held.splice(0)) response.end()
  answered.splice(0)
  const stopped = outbox.stop()
  receiver.closeAllConnections()
  await stopped
  await new Promise((done) => receiver.close(done))
  await fixture.close()
})

async function addDeliveries(entity: string, path: string, count: number): Promise<void> {
  const webhookId = systemIds.uuid()
  const url = `http://${host}${path}`
  await insertWebhook(fixture.db, { id: webhookId, entity, project: null, url, secret: 'whsec_aa', events: [] })
  for (let i = 0; i < count; i += 1) {
    const delivery = { id: systemIds.uuid(), webhookId, eventId: `${entity}-${i}`, eventType: 'training_job.started' }
    await insertDelivery(fixture.db, { ...delivery, body: '{}' })
  }
}

const inState = async (status: string): Promise<number> =>
  (await webhookTables(fixture.db).selectFrom('webhook_deliveries').select('id').where('status', '=', status).execute())
    .length

test('an entity whose receiver never answers holds eight attempts, and those of others are made', async () => {
  await addDeliveries('gone', '/silent', 40)
  outbox.start()
  await until(() => held.length === 8, 'the silent receiver has what it may hold')
  await addDeliveries('well', '/well', 30)
  await until(async () => (await inState('delivered')) === 30, "the other entity's deliveries arrive")
  expect([held.length, answered.length]).toEqual([8, 30])
})

test('entities beyond the places of all get their first attempts all the same', async () => {
  await addDeliveries('gone', '/silent', 40)
  await addDeliveries('gone too', '/silent', 40)
  outbox.start()
  await until(() => held.length === 16, 'the silent receivers have all places')
  await addDeliveries('well', '/well', 3)
  await until(async () => (await inState('delivered')) === 3, 'the third entity is told')
  expect(held).toHaveLength(16)
})

test('of two receivers of one entity, the silent one does not have all places', async () => {
  await addDeliveries('one', '/silent', 40)
  await addDeliveries('one', '/well', 4)
  outbox.start()
  await until(() => answered.length === 4, 'the other receiver is told')
})

test('an attempt that ends after another was noted changes nothing', async () => {
  const db = webhookTables(fixture.db)
  await addDeliveries('one', '/well', 1)
  const delivery = await db.selectFrom('webhook_deliveries').select(['id', 'attempts']).executeTakeFirstOrThrow()
  // its lease is over at once, so another server may claim it
  expect(await claimDelivery(fixture.db, delivery, 0)).toBe(true)
  expect(await claimDelivery(fixture.db, delivery, 60_000)).toBe(true)
  await setAttempt(fixture.db, delivery, { isDelivered: true, status: 200, error: null, retryMs: null })
  await setAttempt(fixture.db, delivery, { isDelivered: false, status: 500, error: 'late', retryMs: 1000 })
  const row = await db.selectFrom('webhook_deliveries').selectAll().executeTakeFirstOrThrow()
  expect(row).toMatchObject({ status: 'delivered', attempts: 1, last_status: 200, last_error: null })
})

test('what is noted of an event that is gone is forgotten, and deliveries are made all the same', async () => {
  const db = webhookTables(fixture.db)
  await addDeliveries('one', '/well', 1)
  const { id } = await db.selectFrom('webhooks').select('id').executeTakeFirstOrThrow()
  await db.insertInto('webhook_events').values({ event_id: systemIds.uuid(), webhook_id: id }).execute()
  outbox.start()
  await until(async () => (await inState('delivered')) === 1, 'the delivery arrives')
  expect(await db.selectFrom('webhook_events').selectAll().execute()).toEqual([])
})
