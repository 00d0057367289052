/**
 * Which answers to watched prompts wait: new steps make room for newer ones, and what somebody asked for stays.
 */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { answersAt, findProbe, insertProbe } from '#plugins/probes/storage/probes.js'
import { queueAnswer, queueNewStep } from '#plugins/probes/storage/queued-answers.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { openDatabase } from '../../../../support/service/with-plugins.js'

const PROBE = '0b0e6f4c-1111-4222-8333-444455556666'
let database: OpenDatabase
beforeEach(async () => {
  database = await openDatabase(':memory:')
  const { db } = database
  await db
    .insertInto('models')
    .values({ id: 'm1', entity: 'e', project: 'p', name: 'n', run_id: 'r', step: 0, base_model: 'b' })
    .execute()
  await insertProbe(db, { id: PROBE, modelId: 'm1', keyId: 'k', messages: [], maxTokens: 4 })
})
afterEach(() => database.close())

test('a step that waited already and is then asked for is not left out', async () => {
  const { db } = database
  await queueNewStep(db, 'm1', 1)
  await queueNewStep(db, 'm1', 2)
  await queueAnswer(db, { probeId: PROBE, step: 1, isAsked: true })
  for (let step = 3; step <= 12; step += 1) await queueNewStep(db, 'm1', step)
  const all = Array.from({ length: 13 }, (_, step) => step)
  expect((await answersAt(db, PROBE, all)).map(({ step }) => step)).toEqual([1, 5, 6, 7, 8, 9, 10, 11, 12])
})

test('an id in other letters is the same', async () => {
  expect((await findProbe(database.db, 'm1', PROBE.toUpperCase()))?.id).toBe(PROBE)
})
