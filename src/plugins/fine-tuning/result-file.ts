/**
 * The result file of a job: CSV with a line for each gradient step, under OpenAI's columns. It is written when the job is first
 * read after its end, from its events, and is then a file like any other: its owner may delete it.
 *
 * Deviates: cells of what is not measured here (how many tokens were guessed right) are empty.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import type { JsonObject } from '#base/util/json.js'
import type { ServiceContext } from '#service/operations/context.js'
import type { Database } from '#service/storage/database.js'
import { listEvents } from '#service/storage/events.js'
import { findFile, insertFile } from '#service/storage/files.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { type FineTuningRecord, fineTuningJobs } from './storage/jobs.js'
import { gradientStepOf } from './to-openai.js'

/** Columns behind `step`, and what events call them. */
const COLUMNS: Readonly<Record<string, string>> = {
  train_loss: 'loss',
  // of preferences: how often the preferred answer is ahead
  train_accuracy: 'rewards/accuracies',
  valid_loss: 'val/loss',
  valid_mean_token_accuracy: '',
}
const PAGE = 1000

/** Writes the result file of a job that has succeeded, and counts the tokens it trained on, over all its steps. */
export async function writeResult(
  context: Pick<ServiceContext, 'db' | 'blobs'>,
  record: FineTuningRecord,
): Promise<Pick<FineTuningRecord, 'trainedTokens' | 'resultFileId'>> {
  let trainedTokens = 0
  async function* lines(): AsyncGenerator<readonly string[]> {
    yield ['step', ...Object.keys(COLUMNS)]
    let after: string | undefined
    for (;;) {
      const page = await listEvents(context.db, record.jobId, { after, limit: PAGE })
      for (const event of page.items) {
        const { type, data } = event
        trainedTokens += Number(data['num_trainable_tokens'] ?? 0)
        if (type !== 'gradient_step') continue
        yield [String(gradientStepOf(event)), ...Object.values(COLUMNS).map((name) => cell(data, name))]
      }
      after = page.items.at(-1)?.id
      if (!page.hasMore) return
      await othersTurn()
    }
  }
  const resultFileId = await storeResult(context, record, lines(), (db, id) =>
    fineTuningJobs.setResult(db, record.jobId, { trained_tokens: trainedTokens, result_file_id: id }),
  )
  return { trainedTokens, resultFileId }
}

/**
 * Stores a job's result file.
 *
 * @param note notes which it is, in the same transaction @returns its id
 */
export async function storeResult(
  { db, blobs }: Pick<ServiceContext, 'db' | 'blobs'>,
  job: Pick<FineTuningRecord, 'jobId' | 'entity' | 'project'>,
  lines: AsyncIterable<readonly string[]>,
  note: (db: Database, id: string) => Promise<boolean>,
): Promise<string> {
  async function* text(): AsyncGenerator<string> {
    for await (const cells of lines) yield `${cells.join(',')}\n`
  }
  const { entity, project } = job
  const id = `file-${job.jobId}`
  const { sha256, sizeBytes } = await blobs.put(text())
  await inTransaction(db, async (transaction) => {
    if (!(await note(transaction, id)) || (await findFile(transaction, job, { id })) !== null) return
    await insertFile(transaction, {
      ...{ id, entity, project, sha256, sizeBytes },
      ...{ filename: 'step_metrics.csv', purpose: 'fine-tune-results', artifact: null, problem: null },
    })
  })
  return id
}

function cell(data: JsonObject, name: string): string {
  const value = data[name]
  return typeof value === 'number' ? String(value) : ''
}
