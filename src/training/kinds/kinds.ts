/**
 * How each kind of job is opened: a folder each, loaded for a job of the kind. A new kind is a new entry here.
 */
import { type OptionsOf, readOptions } from '#contract/jobs/kinds.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { RefusedRows } from '#formats/rows/examples/batches.js'
import type { RowSource } from '#formats/rows/json-lines.js'
import type { PreferenceText } from '#formats/rows/preference-data.js'
import type { SftText } from '#formats/rows/sft-data.js'
import type { OpenJob, TrainingStart } from './start.js'

const OPEN: { readonly [K in JobKind]: (start: TrainingStart<K>) => Promise<OpenJob> } = {
  rl: async (start) => (await import('./rl/open-rl.js')).openRl(start),
  sft: async (start) => (await import('./sft/open-sft.js')).openSft(start),
  dpo: async (start) => (await import('./dpo/open-dpo.js')).openDpo(start),
}

/** A row as a chat template renders it, or what the template refuses. */
type RenderedRows = AsyncIterable<{ readonly refused: RefusedRows }>
type RowText = SftText & PreferenceText

/** Rows of a kind one by one; none for a kind whose rows no template renders. */
const RENDER: {
  readonly [K in JobKind]?: (source: RowSource, text: RowText, options: OptionsOf<K>) => Promise<RenderedRows>
} = {
  sft: async (source, text, { assistant_turns: assistantTurns }) => {
    const { readSftBatches } = await import('#formats/rows/sft-data.js')
    return readSftBatches(source, { text, assistantTurns, ...EACH_ROW })
  },
  dpo: async (source, text, { loss_type: loss }) => {
    if (loss === 'kto') {
      const { readUnpairedBatches } = await import('#formats/rows/unpaired-data.js')
      return readUnpairedBatches(source, { text, ...EACH_ROW })
    }
    const { readPreferenceBatches } = await import('#formats/rows/preference-data.js')
    return readPreferenceBatches(source, { text, ...EACH_ROW })
  },
}
const EACH_ROW = { batchSize: 1, maxLength: Number.MAX_SAFE_INTEGER } as const

/** Renders the rows of a job one by one. */
export async function* renderRows<K extends JobKind>(
  kind: K,
  {
    config,
    source,
    text,
  }: { readonly config: WorkerJob['config']; readonly source: RowSource; readonly text: RowText },
): AsyncGenerator<{ readonly refused: RefusedRows }> {
  const render = RENDER[kind]
  if (render === undefined) throw new Error(`no rows of ${kind} jobs are rendered`)
  yield* await render(source, text, readOptions(kind, config))
}

/**
 * Reads a job's data.
 *
 * @throws {AppError} what is wrong with its data
 */
export async function openTraining(start: Omit<TrainingStart, 'options'>): Promise<OpenJob> {
  return await openAs(start.job.kind, start)
}

async function openAs<K extends JobKind>(kind: K, start: Omit<TrainingStart, 'options'>): Promise<OpenJob> {
  return await OPEN[kind]({ ...start, options: readOptions(kind, start.job.config) })
}
