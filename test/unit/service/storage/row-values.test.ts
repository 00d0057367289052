/**
 * Columns are read strictly: a row of another version of the program is an error that names it, never a silent default.
 */
import { describe, expect, test } from 'vitest'
import { createJob } from '#service/queue/queue.js'
import { readNumbers, readObject, readOneOf } from '#service/storage/row-values.js'
import { findJob } from '#service/storage/training-jobs.js'
import { expectCode } from '../../../support/expect-code.js'
import { createJobFixture, ONCE } from '../../../support/service/job-fixture.js'

describe('row values', () => {
  test('a word outside the list is refused by name', () => {
    expect(readOneOf(['a', 'b'], 'b', 'letter')).toBe('b')
    expect(() => readOneOf(['a', 'b'], 'c', 'letter')).toThrow('letter must be one of a, b, got "c"')
  })

  test('an object is an object, numbers are numbers', () => {
    expect(readObject('{"a":1}', 'it')).toEqual({ a: 1 })
    expect(() => readObject('[1]', 'it')).toThrow('it must be a JSON object')
    expect(readNumbers('{"a":1,"b":"x"}', 'it')).toEqual({ a: 1 })
  })

  test('a job of a kind this version does not know is not taken for another kind', async () => {
    const fixture = await createJobFixture()
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    await fixture.db.updateTable('training_jobs').set({ kind: 'dpo2' }).where('id', '=', job.id).execute()
    await expectCode(() => findJob(fixture.db, job.id), 'invalid_row', 'dpo2')
    await fixture.close()
  })
})
