/**
 * `/ui/graders`: a grader is written as JSON and tried on a row and an answer; both can be taken from a file, a loop, or what a
 * job kept.
 */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { FileObject } from '#contract/wire/files.js'
import type { List } from '#contract/wire/list.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { go, hrefOf, query, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { saveBlob } from '../data/download.js'
import { type FileRow, readFirstRows } from '../data/file-rows.js'
import { formatAgo, formatCount, formatNumber, withoutTurns } from '../data/format.js'
import {
  checkGrader,
  GRADERS_API,
  type Grade,
  gradeText,
  type JsonRecord,
  readRecord,
  toText,
  written,
} from '../data/grading.js'
import { useGone, useLoad } from '../data/load.js'
import { type Loop, type LoopAnswers, loopApi } from '../data/loops.js'
import { BeginWith } from '../parts/begin-with.js'
import { Failure } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { GraderSaid } from '../parts/grader-said.js'
import { TextField } from '../parts/json-field.js'
import { Title } from '../parts/layout.js'

const MOST_FILES = 100
const MOST_JOBS = 50
const CHECK = 'trainyard grader check grader.json --item row.json --sample "an answer"'

export function GradersPage(): JSX.Element {
  const [grader, setGrader] = useState(written.grader)
  const [row, setRow] = useState(written.row)
  const [sample, setSample] = useState(written.sample)
  useEffect(() => {
    Object.assign(written, { grader, row, sample })
  }, [grader, row, sample])
  useLoop((text, answer) => {
    setGrader(text)
    if (answer !== null) setSample(answer)
  })
  return (
    <>
      <Title text="Graders" />
      <p class="soft">
        A grader is a reward as a file: what it gives an answer to a row is what training raises. Try it before it
        trains.
      </p>
      <div class="beside">
        <Trial {...{ grader, row, sample, setGrader, setRow, setSample }} />
        <aside class="stack" aria-label="Rows and answers">
          <FromFile
            onRow={(value) => {
              setRow(toText(value))
            }}
          />
          <FromJob />
        </aside>
      </div>
      <CopyAs cli={CHECK} path={`${GRADERS_API}run`} />
    </>
  )
}

/** The grader of the loop in the address, and the answer that was chosen there. */
function useLoop(take: (grader: string, answer: string | null) => void): void {
  const id = query.value.get('loop')
  const loop = useLoad(id === null ? null : loopApi(id), (signal) => ask<Loop>(loopApi(id ?? ''), { signal }))
  const chosen = /^(best|worst)(\d)$/.exec(query.value.get('answer') ?? '')
  const path = id === null || chosen === null ? null : loopApi(id, '/answers')
  const answers = useLoad(path, (signal) => ask<LoopAnswers>(path ?? '', { signal }))
  const isComplete = loop.data !== null && (path === null || answers.data !== null)
  useEffect(() => {
    // once: what is changed here stays
    const key = `${id} ${chosen?.[0] ?? ''}`
    if (loop.data === null || !isComplete || written.loop === key) return
    written.loop = key
    const side = answers.data?.[chosen?.[1] === 'worst' ? 'worst' : 'best'] ?? []
    take(toText(loop.data.grader), chosen === null ? null : (side[Number(chosen[2])]?.answer ?? null))
    // the row it was asked stands in the loop's file
    if (query.peek().get('file') === null) setQuery({ file: loop.data.prompts_file })
  }, [isComplete, id])
}

interface Problem {
  readonly said: string
  /** Of the grader, in its own words. */
  readonly path: string | null
}

function Trial(props: {
  readonly grader: string
  readonly row: string
  readonly sample: string
  readonly setGrader: (text: string) => void
  readonly setRow: (text: string) => void
  readonly setSample: (text: string) => void
}): JSX.Element {
  const [grade, setGrade] = useState<Grade | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isValid, setIsValid] = useState(false)
  const [isBusy, setIsBusy] = useState(false)
  const gone = useGone()
  const grader = readRecord(props.grader)
  const item = readRecord(props.row)
  const isReady = typeof grader !== 'string' && typeof item !== 'string'

  const forget = (): void => {
    setGrade(null)
    setProblem(null)
    setError(null)
    setIsValid(false)
  }
  async function run(deed: () => Promise<void>): Promise<void> {
    forget()
    setIsBusy(true)
    try {
      await deed()
    } catch (raw) {
      const failed = toApiError(raw)
      const path = /^grader\.?(.*)$/.exec(failed.param ?? '')?.[1] ?? null
      if (gone.aborted) return
      if (path === null) setError(failed)
      else setProblem({ path, said: sayOf(path, failed) })
    }
    if (!gone.aborted) setIsBusy(false)
  }
  return (
    <div class="stack">
      <form
        class="card stack grader"
        onSubmit={(event) => {
          event.preventDefault()
          if (isReady) void run(async () => setGrade(await gradeText(grader, item, toSample(props.sample), gone)))
        }}
      >
        <BeginWith
          onText={(text) => {
            forget()
            props.setGrader(text)
          }}
        />
        <TextField
          name="The grader"
          text={props.grader}
          rows={14}
          onText={(text) => {
            forget()
            props.setGrader(text)
          }}
          problem={typeof grader === 'string' ? grader : problem?.said}
          path={problem?.path ?? null}
        />
        <TextField name="The row, as item" text={props.row} rows={4} onText={props.setRow} problem={item} />
        <TextField
          name="The answer: its text, or a chat completion as JSON"
          text={props.sample}
          rows={4}
          onText={props.setSample}
        />
        <Deeds
          grader={props.grader}
          isBusy={isBusy}
          canScore={isReady}
          onCheck={
            typeof grader === 'string'
              ? null
              : () =>
                  void run(async () => {
                    await checkGrader(grader, gone)
                    setIsValid(true)
                  })
          }
        />
        {isValid && <p role="status">It is a grader.</p>}
        {error !== null && <Failure error={error} />}
      </form>
      {grade !== null && <Scored grade={grade} />}
    </div>
  )
}

function Deeds(props: {
  readonly grader: string
  readonly isBusy: boolean
  readonly canScore: boolean
  /** Null: it is no JSON. */
  readonly onCheck: (() => void) | null
}): JSX.Element {
  const { grader, isBusy, onCheck } = props
  return (
    <p class="row">
      <button type="submit" class="primary" disabled={isBusy || !props.canScore}>
        {isBusy ? 'Asking…' : 'Score it'}
      </button>
      <button type="button" disabled={isBusy || onCheck === null} onClick={() => onCheck?.()}>
        Check the grader alone
      </button>
      <button
        type="button"
        onClick={() => saveBlob(new Blob([`${grader}\n`], { type: 'application/json' }), 'grader.json')}
      >
        Save as grader.json
      </button>
    </p>
  )
}

/** The place goes first, as it is in the grader alone. */
function sayOf(path: string, { message, hint }: ApiError): string {
  const [own, full] = [path, `grader.${path}`]
  const said = message.startsWith(full) ? message.slice('grader.'.length) : own === '' ? message : `${own}: ${message}`
  return hint === null ? said : `${said}; ${hint}`
}

/** An answer of chat is one that has `choices`: everything else is text. */
function toSample(text: string): string | JsonRecord {
  const value = readRecord(text)
  return typeof value !== 'string' && Array.isArray(value['choices']) ? value : text
}

function Scored({ grade }: { readonly grade: Grade }): JSX.Element {
  const used = Object.entries(grade.model_grader_token_usage_per_model)
  return (
    <section class="card stack" aria-label="Score" role="status">
      <p class="row">
        <strong class="score">{formatNumber(grade.reward)}</strong>
        <GraderSaid found={{ ...grade.metadata, sub_rewards: grade.sub_rewards }} />
      </p>
      {used.map(([model, tokens]) => (
        <p key={model} class="soft small">
          {model}: {formatCount(tokens.prompt_tokens)} tokens of prompts, {formatCount(tokens.completion_tokens)} of
          answers
        </p>
      ))}
    </section>
  )
}

function FromFile({ onRow }: { readonly onRow: (row: JsonRecord) => void }): JSX.Element {
  const path = `/v1/files?limit=${MOST_FILES}`
  const files = useLoad(path, (signal) => ask<List<FileObject>>(path, { signal }))
  const id = query.value.get('file')
  const rows = useLoad(
    id === null ? null : `rows of ${id}`,
    (signal) => readFirstRows(`/v1/files/${encodeURIComponent(id ?? '')}/content`, signal),
    { keepsOld: false },
  )
  const known = files.data?.data ?? []
  return (
    <section class="card stack" aria-labelledby="from-file">
      <h2 id="from-file">A row of a file</h2>
      <select
        aria-label="File"
        value={id ?? ''}
        onChange={(event) => setQuery({ file: event.currentTarget.value || null })}
      >
        <option value="">choose a file…</option>
        {id !== null && known.every((file) => file.id !== id) && <option value={id}>{id}</option>}
        {known.map((file) => (
          <option key={file.id} value={file.id}>
            {withoutTurns(file.filename)}
          </option>
        ))}
      </select>
      {rows.error !== null && <Failure error={rows.error} onRetry={rows.reload} />}
      {rows.data !== null && (
        <ol class="plain rows-to-take">
          {rows.data.rows.map((each) => (
            <Take key={each.line} row={each} onRow={onRow} />
          ))}
        </ol>
      )}
      {rows.data?.isWhole === false && (
        <p class="soft small">The first {formatCount(rows.data.rows.length)} rows; there are more.</p>
      )}
    </section>
  )
}

function Take(props: { readonly row: FileRow; readonly onRow: (row: JsonRecord) => void }): JSX.Element {
  const { line, value, text } = props.row
  return (
    <li>
      <button type="button" class="take" disabled={value === null} onClick={() => value !== null && props.onRow(value)}>
        <span class="soft small">{line}</span> <span>{withoutTurns(text.slice(0, 200))}</span>
      </button>
    </li>
  )
}

/** Answers that a job kept are tried all at once, on a page of their own. */
function FromJob(): JSX.Element {
  const path = `/v1/preview/training-jobs?kind=rl&limit=${MOST_JOBS}`
  const jobs = useLoad(path, (signal) => ask<List<TrainingJob>>(path, { signal }))
  const kept = jobs.data?.data.filter(({ group_count: groups }) => groups !== null) ?? []
  const at = nowMs()
  return (
    <section class="card stack" aria-labelledby="from-job">
      <h2 id="from-job">Answers of a job</h2>
      {kept.length === 0 ? (
        <p class="soft">No job of reinforcement learning keeps answers now.</p>
      ) : (
        <select
          aria-label="Job"
          value=""
          onChange={(event) => go(`/jobs/${encodeURIComponent(event.currentTarget.value)}/grader`)}
        >
          <option value="">choose a job…</option>
          {kept.map((job) => (
            <option key={job.id} value={job.id}>
              {`step ${job.step ?? '–'}, ${formatAgo(job.created_at, at)}, ${job.id.slice(0, 8)}`}
            </option>
          ))}
        </select>
      )}
      <p class="soft small">
        All jobs are in <a href={hrefOf('/jobs?kind=rl')}>Jobs</a>: <em>Try a reward</em> is on the page of each.
      </p>
    </section>
  )
}
