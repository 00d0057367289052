/**
 * Entry of the process that renders the first rows of a job, with the code of the job itself: what the chat template refuses is said
 * when the job is created. It reads files of this machine, loads no weights and changes nothing.
 *
 * How much is looked at is fixed, so that the same file has the same answer on any machine; the job looks at all of it before its
 * first step.
 */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { AppError } from '#base/errors/errors.js'
import { answerProcess } from '#base/processes/ask-process.js'
import type { RowCheckAnswer, RowCheckRequest } from '#contract/processes/row-check.js'
import { joinRefused, NO_REFUSALS } from '#formats/rows/examples/batches.js'
import { headOf } from '#formats/rows/json-lines.js'
import { loadTextModel } from '#model/text/text-model.js'
import { renderRows } from '#training/kinds/kinds.js'
import { bindText } from '../text-binding.js'
import { assertKwargsAreRead } from '../unread-kwargs.js'

/** Of each file; a row that begins within the bytes is read to its end. */
const MOST_ROWS = 2000
const MOST_BYTES = 8 * 1024 ** 2
/** Named of those that are left out. */
const NAMED_ROWS = 3

await answerProcess<RowCheckRequest, RowCheckAnswer>('row_check_failed', async (request, asker) => {
  const { job, sourcePath, inputPath, validationPath } = request
  const model = await loadTextModel(sourcePath)
  assertKwargsAreRead(model, job)
  const text = bindText(model, job.template_kwargs)

  /** @returns a sentence about rows that are left out; none for none @throws {DataError} that of the first, where all are */
  async function look(path: string): Promise<string[]> {
    let rowCount = 0
    let refused = NO_REFUSALS
    const source = headOf(createReadStream(path), MOST_BYTES)
    for await (const row of renderRows(job.kind, { config: job.config, source, text })) {
      rowCount += 1
      refused = joinRefused(refused, row.refused)
      if (rowCount === MOST_ROWS) break
    }
    if (refused.error === null) return []
    const isWhole = rowCount < MOST_ROWS && (await stat(path)).size <= MOST_BYTES
    if (isWhole && refused.count === rowCount) throw refused.error
    const named = refused.examples.slice(0, NAMED_ROWS).join('; ')
    const rows = isWhole ? `${rowCount} rows` : `the first ${rowCount} rows`
    return [`${refused.count} of ${rows} will be left out: ${named}${refused.count > NAMED_ROWS ? '; …' : ''}`]
  }

  async function lookAtValidation(path: string): Promise<string[]> {
    try {
      return (await look(path)).map((sentence) => `validation rows: ${sentence}`)
    } catch (cause) {
      if (!(cause instanceof AppError)) throw cause
      const { category, code, message, hint, details } = cause
      throw new AppError(category, code, `validation_data_url: ${message}`, { cause, hint, details })
    }
  }

  const validation = validationPath === null ? [] : await lookAtValidation(validationPath)
  await asker.answer({ warnings: [...(await look(inputPath)), ...validation] })
})
