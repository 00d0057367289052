/**
 * How each kind of job is opened: a folder each. A new kind is a new entry here.
 */
import { type OptionsOf, readOptions } from '#contract/jobs/kinds.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { RefusedRows } from '#formats/rows/examples/batches.js'
import type { RowSource } from '#formats/rows/json-lines.js'
import { type PreferenceText, readPreferenceBatches } from '#formats/rows/preference-data.js'
import { readSftBatches, type SftText } from '#formats/rows/sft-data.js'
import { readUnpairedBatches } from '#formats/rows/unpaired-data.js'
import { openDpo } from './dpo/open-dpo.js'
import { openRl } from './rl/open-rl.js'
import { openSft } from './sft/open-sft.js'
import type { OpenJob, TrainingStart } from './start.js'

const OPEN: { readonly [K in JobKind]: (start: TrainingStart<K>) => Promise<OpenJob> } = {
  rl: openRl,
  sft: openSft,
  dpo: openDpo,
}

/** A row as a chat template renders it, or what the template refuses. */
type RenderedRows = AsyncIterable<{ readonly refused: RefusedRows }>
type RowText = SftText & PreferenceText

/** Rows of a kind one by one; none for a kind whose rows no template renders. */
const RENDER: {
  readonly [K in JobKind]?: (source: RowSource, text: RowText, options: OptionsOf<K>) => RenderedRows
} = {
  sft: (source, text, { assistant_turns: assistantTurns }) =>
    readSftBatches(source, { text, assistantTurns, ...EACH_ROW }),
  dpo: (source, text, { loss_type: loss }) =>
    loss === 'kto'
      ? readUnpairedBatches(source, { text, ...EACH_ROW })
      : readPreferenceBatches(source, { text, ...EACH_ROW }),
}
const EACH_ROW = { batchSize: 1, maxLength: Number.MAX_SAFE_INTEGER } as const

/** Renders the rows of a job one by one. */
export function renderRows<K extends JobKind>(
  kind: K,
  {
    config,
    source,
    text,
  }: { readonly config: WorkerJob['config']; readonly source: RowSource; readonly text: RowText },
): RenderedRows {
  const render = RENDER[kind]
  if (render === undefined) throw new Error(`no rows of ${kind} jobs are rendered`)
  return render(source, text, readOptions(kind, config))
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
