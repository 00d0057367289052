/**
 * Which training data goes first when there is too much of it. A real database; the sizes stand in its rows.
 */
import { expect, it, onTestFinished } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { dropOldTrainingData } from '#service/operations/training/retention.js'
import { createJob } from '#service/queue/queue.js'
import { insertKeptData, listEndedKeptData, setKeptDataBytes } from '#service/storage/jobs/kept-data.js'
import { createJobFixture, ONCE } from '../../../../support/service/job-fixture.js'

it('what is larger than the bound goes, and takes no room from what is older and fits', async () => {
  const fixture = await createJobFixture()
  onTestFinished(() => fixture.close())
  const { db } = fixture
  const sizes = [10, 20, 500, 30, 60]
  const ids: string[] = []
  for (const [index, size] of sizes.entries()) {
    const { job } = await createJob(db, fixture.newJob(), ONCE)
    ids.push(job.id)
    await insertKeptData(db, { id: job.id, modelId: fixture.modelId, inputSha256: `${index}`.repeat(64) })
    await setKeptDataBytes(db, job.id, size)
    // the last of them ended last
    const endedAtMs = Date.now() - 1000 + index
    await db.updateTable('training_jobs').set({ ended_at_ms: endedAtMs }).where('id', '=', job.id).execute()
  }
  await dropOldTrainingData({
    db,
    blobs: { factsOf: async () => null },
    logger: createLogger({ level: 'silent' }),
    keepMs: 3_600_000,
    maxBytes: 110,
    directory: null,
  })
  const kept = (await listEndedKeptData(db)).map(({ jobId }) => sizes[ids.indexOf(jobId)])
  expect(kept).toEqual([60, 30, 20])
})
