/**
 * What a job by examples or preferences trained on: the first rows with prompt and answers, and the tokens of them that train,
 * which the server counts when it is asked to.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { isFinished } from '#contract/wire/job-words.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { saveFile } from '../data/download.js'
import type { FileRow } from '../data/file-rows.js'
import { formatCount, formatNumber, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { missingScope } from '../data/session.js'
import { KINDS } from '../data/train/kinds.js'
import { planTrainedRows, readTrainedRows, toTrainedRow } from '../data/trained-rows.js'
import { Block, Failure } from './block.js'
import { Sequences } from './train/plan.js'

const SHOWN = 8
/** Of a prompt or an answer. */
const CHARACTERS = 280

export function TrainedRows({ job }: { readonly job: TrainingJob }): JSX.Element {
  const isForgotten = isFinished(job.status) && job.data_kept_until === null
  const rows = useLoad(isForgotten ? null : `rows of ${job.id}`, (signal) => readTrainedRows(job, signal))
  const isGone = isForgotten || rows.error?.code === 'training_data_not_kept'
  return (
    <section class="stack" aria-labelledby="trained-rows">
      <h2 id="trained-rows">What it trained on</h2>
      {isGone ? (
        <p class="soft">
          Its rows are not kept any more: <code>trainyard serve --keep-training-data</code> says for how long they are.
        </p>
      ) : (
        <Block of={rows} height="12rem">
          {(found) => (
            <Rows job={job} rows={found.rows.slice(0, SHOWN)} isWhole={found.isWhole && found.rows.length <= SHOWN} />
          )}
        </Block>
      )}
    </section>
  )
}

function Rows(props: {
  readonly job: TrainingJob
  readonly rows: readonly FileRow[]
  readonly isWhole: boolean
}): JSX.Element {
  const { job, rows, isWhole } = props
  const [plan, setPlan] = useState<TrainingPlan | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const missing = missingScope('write')
  const count = (): void => {
    setError(null)
    setIsBusy(true)
    planTrainedRows(job, rows)
      .then(setPlan, (raw: unknown) => setError(toApiError(raw)))
      .finally(() => setIsBusy(false))
  }
  return (
    <>
      <Table job={job} rows={rows} plan={plan} />
      <p class="row">
        {plan === null && (
          <button type="button" disabled={missing !== null || isBusy} title={missing ?? undefined} onClick={count}>
            {isBusy ? 'Counting…' : 'Count the tokens that train'}
          </button>
        )}
        <button
          type="button"
          class="link"
          onClick={() => {
            const path = `/v1/preview/training-jobs/${encodeURIComponent(job.id)}/data`
            saveFile(path, `${job.id}.jsonl`).catch((raw: unknown) => setError(toApiError(raw)))
          }}
        >
          Download all rows
        </button>
        {!isWhole && <span class="soft">The first {formatCount(rows.length)} rows are shown, there are more.</span>}
      </p>
      {error !== null && <Failure error={error} />}
      {plan !== null && <Sequences plan={plan} />}
    </>
  )
}

function Table(props: {
  readonly job: TrainingJob
  readonly rows: readonly FileRow[]
  readonly plan: TrainingPlan | null
}): JSX.Element {
  const { plan } = props
  const rows = props.rows.map(toTrainedRow)
  const [wanted = '', rejectedTitle] = KINDS[props.job.kind].answers
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col" class="number">
              Line
            </th>
            <th scope="col">Prompt</th>
            <th scope="col">{wanted}</th>
            {rejectedTitle !== undefined && <th scope="col">{rejectedTitle}</th>}
            <th scope="col" class="number">
              Tokens that train
            </th>
            <th scope="col" class="number">
              Weight
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ line, prompt, answer, rejected, weight }, n) => (
            <tr key={line}>
              <th scope="row" class="number">
                {line}
              </th>
              <Text label="Prompt" text={prompt} />
              <Text label={wanted} text={answer} />
              {rejectedTitle !== undefined && <Text label={rejectedTitle} text={rejected ?? ''} />}
              <td class="number" data-label="Tokens that train">
                {plan === null ? '–' : trainedTokens(plan, n + 1)}
              </td>
              <td class="number" data-label="Weight">
                {formatNumber(weight ?? 1)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Text({ label, text }: { readonly label: string; readonly text: string }): JSX.Element {
  return (
    <td data-label={label} class="text">
      <span class="raw">
        {text === '' ? <span class="soft">–</span> : withoutTurns(text.slice(0, CHARACTERS))}
        {text.length > CHARACTERS && '…'}
      </span>
    </td>
  )
}

/** Of both answers of a row; nothing where none of them trains. @param line in the rows that were planned */
function trainedTokens(plan: TrainingPlan, line: number): string {
  const own = plan.sequences.filter(({ source }) => source === `line ${line}` || source.startsWith(`line ${line},`))
  return own.length === 0 ? 'none' : own.map((sequence) => formatCount(sequence.trained_tokens)).join(' + ')
}
