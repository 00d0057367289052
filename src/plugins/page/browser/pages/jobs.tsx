/**
 * `/ui/jobs`: jobs that wait, run or have ended, newest first.
 */
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import { JOB_KINDS, JOB_STATUSES } from '#contract/wire/job-words.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, setQuery } from '../data/address.js'
import { nowMs } from '../data/clock.js'
import { formatAgo, formatCount, formatNumber, formatSeconds } from '../data/format.js'
import { takeProgress } from '../data/job-progress.js'
import { live } from '../data/live.js'
import { useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { useModels } from '../data/model-names.js'
import { readModel } from '../data/models.js'
import { useRows } from '../data/rows.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { remaining, StatusTag } from '../parts/job-line.js'
import { Title } from '../parts/layout.js'
import { LiveMark } from '../parts/live-mark.js'
import { useSteadyRows } from '../parts/steady.js'

const REFRESH_MS = 3000
/** When a job ends is told by its record alone. */
const RECORD_MS = 10_000

export function JobsPage(): JSX.Element {
  const status = JOB_STATUSES.find((word) => word === query.value.get('status')) ?? null
  const kind = JOB_KINDS.find((word) => word === query.value.get('kind')) ?? null
  const name = query.value.get('m') ?? ''
  const [project = '', short = ''] = name.split(/\/(.*)/s)
  const model = useLoad(short === '' ? null : name, (signal) => readModel(project, short, signal), { keepsOld: false })
  const filter = [
    ['status', status],
    ['kind', kind],
    ['model_id', model.data?.id ?? null],
  ].flatMap(([key, value]) => (value == null ? [] : [`${key}=${encodeURIComponent(value)}`]))
  const path = `/v1/preview/training-jobs${filter.length === 0 ? '' : '?'}${filter.join('&')}`
  const jobs = useRows<TrainingJob>(short !== '' && model.data === null ? null : path, {
    topics: ['job'],
    take: takeProgress,
    everyMs: live.value === true ? RECORD_MS : REFRESH_MS,
  })
  const models = useModels(jobs.data?.data ?? [])
  return (
    <>
      <Title text="Jobs">
        <LiveMark />
      </Title>
      <search class="row filters">
        <Choice name="status" title="Status" chosen={status} words={JOB_STATUSES} />
        <Choice name="kind" title="Kind" chosen={kind} words={JOB_KINDS} />
        <label>
          Model
          <input
            type="search"
            placeholder="project/name"
            spellcheck={false}
            value={name}
            onChange={(event) => setQuery({ m: event.currentTarget.value.trim() || null, rows: null })}
          />
        </label>
      </search>
      {model.error !== null && <Failure error={model.error} onRetry={model.reload} />}
      <Block of={jobs} height="16rem">
        {(page) =>
          page.data.length === 0 ? (
            <Empty command={filter.length === 0 ? 'trainyard demo' : 'trainyard jobs list'}>
              {filter.length === 0 ? 'No job was started yet.' : 'No job is like this.'}
            </Empty>
          ) : (
            <>
              <Rows jobs={page.data} models={models} isFolded={name === ''} />
              {page.has_more && (
                <p class="row">
                  {jobs.more !== null && (
                    <button type="button" onClick={jobs.more}>
                      More
                    </button>
                  )}
                  <span class="soft">{formatCount(page.data.length)} shown, there are more</span>
                </p>
              )}
            </>
          )
        }
      </Block>
      <CopyAs cli="trainyard jobs list" path={path} />
    </>
  )
}

function Choice(props: {
  readonly name: string
  readonly title: string
  readonly chosen: string | null
  readonly words: readonly string[]
}): JSX.Element {
  return (
    <label>
      {props.title}
      <select
        value={props.chosen ?? ''}
        onChange={(event) => setQuery({ [props.name]: event.currentTarget.value || null, rows: null })}
      >
        <option value="">all</option>
        {props.words.map((word) => (
          <option key={word}>{word}</option>
        ))}
      </select>
    </label>
  )
}

/** Jobs of one model and kind that are one row: what a loop of many is. */
const FOLDED = 3

/** Ended jobs of a loop together, at the place of the newest; everything else by itself. */
function foldLoops(jobs: readonly TrainingJob[]): readonly (readonly TrainingJob[])[] {
  const rows: TrainingJob[][] = []
  const loops = new Map<string, TrainingJob[]>()
  for (const job of jobs) {
    const key = `${job.model_id} ${job.kind}`
    const known = job.status === 'completed' ? loops.get(key) : undefined
    if (known !== undefined) known.push(job)
    else {
      const row = [job]
      rows.push(row)
      if (job.status === 'completed') loops.set(key, row)
    }
  }
  return rows.flatMap((row) => (row.length < FOLDED ? row.map((job) => [job]) : [row]))
}

function secondsOf(job: TrainingJob): number | null {
  if (job.training_start === null || job.training_end === null) return null
  return (Date.parse(job.training_end) - Date.parse(job.training_start)) / 1000
}

/** A loop in a line: its steps, and the way to each of its jobs. */
function Loop(props: {
  readonly jobs: readonly TrainingJob[]
  readonly model: Model | undefined
  readonly at: number
}): JSX.Element {
  const { jobs, model, at } = props
  const [newest] = jobs
  const oldest = jobs.at(-1)
  const steps = jobs.reduce((sum, job) => sum + job.num_gradient_steps, 0)
  const seconds = jobs.reduce((sum, job) => sum + (secondsOf(job) ?? 0), 0)
  const name = model === undefined ? null : `${model.project}/${model.name}`
  return (
    <tr>
      <th scope="row" class="name">
        {name === null ? (
          `${newest?.kind} → step ${oldest?.step} to ${newest?.step}`
        ) : (
          <a href={hrefOf(`/jobs?kind=${newest?.kind}&m=${encodeURIComponent(name)}`)}>
            {newest?.kind} → step {oldest?.step} to {newest?.step}
          </a>
        )}
      </th>
      <td data-label="Status">
        {newest !== undefined && <StatusTag job={newest} />}{' '}
        <span class="soft small">{formatCount(jobs.length)} jobs</span>
      </td>
      <td data-label="Model">
        {model === undefined ? <span class="soft">–</span> : <a href={hrefOf(modelPath(model))}>{model.name}</a>}
      </td>
      <td data-label="Gradient steps" class="number">
        {formatNumber(steps)}
      </td>
      <td data-label="Took" class="number">
        {formatSeconds(seconds)}
      </td>
      <td data-label="Created" class="nowrap">
        {formatAgo(newest?.created_at, at)}
      </td>
    </tr>
  )
}

function Rows(props: {
  readonly jobs: readonly TrainingJob[]
  readonly models: ReadonlyMap<string, Model>
  readonly isFolded: boolean
}): JSX.Element {
  const at = nowMs()
  const box = useRef<HTMLDivElement>(null)
  useSteadyRows(box)
  return (
    <div class="table" ref={box}>
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col">Status</th>
            <th scope="col">Model</th>
            <th scope="col" class="number">
              Gradient steps
            </th>
            <th scope="col" class="number">
              Took
            </th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {(props.isFolded ? foldLoops(props.jobs) : props.jobs.map((job) => [job])).flatMap((jobs) => {
            const [job] = jobs
            if (job === undefined) return []
            const model = props.models.get(job.model_id)
            if (jobs.length > 1) return [<Loop key={`loop of ${job.model_id} ${job.kind}`} {...{ jobs, model, at }} />]
            return (
              <tr key={job.id}>
                <th scope="row" class="name">
                  <a href={hrefOf(`/jobs/${job.id}`)}>
                    {job.kind} {job.step === null ? '' : `→ step ${job.step}`}
                  </a>
                </th>
                <td data-label="Status">
                  <span>
                    <StatusTag job={job} /> <span class="soft small">{remaining(job)}</span>
                  </span>
                </td>
                <td data-label="Model">
                  {model === undefined ? (
                    <span class="soft">–</span>
                  ) : (
                    <a href={hrefOf(modelPath(model))}>{model.name}</a>
                  )}
                </td>
                <td data-label="Gradient steps" class="number">
                  {formatNumber(job.num_gradient_steps)}
                  {job.num_sequences === null ? '' : ` of ${formatNumber(job.num_sequences)}`}
                </td>
                <td data-label="Took" class="number">
                  {formatSeconds(secondsOf(job))}
                </td>
                <td data-label="Created" class="nowrap">
                  {formatAgo(job.created_at, at)}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
