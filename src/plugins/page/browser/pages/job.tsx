/**
 * `/ui/jobs/:id`: one job, live. Its events are read from the first and then followed, so that a reload shows the same.
 */

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import { isFinished, isTerminalEvent } from '#contract/wire/job-words.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, route } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatBytes, formatCount, formatNumber, formatSeconds, formatTime, plural } from '../data/format.js'
import { useJobEvents } from '../data/job-events.js'
import { withProgress } from '../data/job-progress.js'
import { live } from '../data/live.js'
import { useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { groupsPath } from '../data/rollouts.js'
import { missingScope } from '../data/session.js'
import { KINDS } from '../data/train/kinds.js'
import { repeatPath } from '../data/train/repeat.js'
import { lowerWordsOf, wordsOf } from '../data/words.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { EpisodesOfJob } from '../parts/episodes.js'
import { GradientCharts } from '../parts/gradient-charts.js'
import { Progress, remaining, StatusTag } from '../parts/job-line.js'
import { Title } from '../parts/layout.js'
import { LiveMark } from '../parts/live-mark.js'
import { LiveLog, type LogLine } from '../parts/log.js'
import { Name, Prose } from '../parts/prose.js'
import { TrainedRows } from '../parts/trained-rows.js'

const REFRESH_MS = 1500
/** When a job ends is told by its record alone. */
const RECORD_MS = 10_000

const NO_EVENTS: readonly TrainingEvent[] = []

export function JobPage(): JSX.Element {
  const { id = '' } = route.value.params
  const path = `/v1/preview/training-jobs/${encodeURIComponent(id)}`
  const [isOver, setIsOver] = useState(false)
  const job = useLoad(path, (signal) => ask<TrainingJob>(path, { signal }), {
    topics: ['job'],
    take: withProgress,
    everyMs: isOver ? null : live.value === true ? RECORD_MS : REFRESH_MS,
  })
  const { data: known, error } = useJobEvents(job.data)
  const events = known ?? NO_EVENTS
  const ended = events.at(-1)?.type
  const isFinal = job.data !== null && isFinished(job.data.status)
  useEffect(() => setIsOver(isFinal), [isFinal])
  useEffect(() => {
    if (ended !== undefined && isTerminalEvent(ended)) job.reload()
  }, [ended])
  if (job.data === null) {
    return (
      <>
        <Title text="Job" />
        <Block of={job} height="30rem">
          {() => null}
        </Block>
      </>
    )
  }
  return (
    <Block of={job} height="30rem">
      {(record) => (
        <Shown job={record} events={events} onChange={job.reload}>
          {error !== null && <Failure error={error} />}
          {!isFinished(record.status) && <LiveMark />}
        </Shown>
      )}
    </Block>
  )
}

function Shown(props: {
  readonly job: TrainingJob
  readonly events: readonly TrainingEvent[]
  readonly onChange: () => void
  readonly children: ComponentChildren
}): JSX.Element {
  const { job, events } = props
  const model = useLoad(job.model_id, (signal) =>
    ask<Model>(`/v1/preview/models/${encodeURIComponent(job.model_id)}`, { signal }),
  )
  const [isAsking, setIsAsking] = useState(false)
  const missing = missingScope('write')
  // named once it is known: nothing stands there for a moment that is not its name
  const name = model.data?.name ?? null
  return (
    <>
      <Title text={`${job.kind.toUpperCase()} job${name === null ? '' : ` of ${name}`}`}>
        <StatusTag job={job} />
        {props.children}
        {job.group_count !== null && (
          <p class="actions">
            <a class="button primary" href={hrefOf(groupsPath(job.id))}>
              Rollouts
            </a>
            <a class="button" href={hrefOf(`/jobs/${encodeURIComponent(job.id)}/grader`)}>
              Try a reward
            </a>
          </p>
        )}
        {!isFinished(job.status) && (
          <p class="actions">
            {job.status === 'running' && <StopAndKeep job={job} onChange={props.onChange} />}
            <button
              type="button"
              class="danger"
              disabled={missing !== null || job.is_cancel_requested}
              title={missing ?? undefined}
              onClick={() => setIsAsking(true)}
            >
              {job.is_cancel_requested ? 'Cancelling…' : 'Cancel'}
            </button>
          </p>
        )}
      </Title>
      <Made job={job} model={model.data} />
      {isAsking && (
        <Confirm
          title={`Cancel this job${name === null ? '' : ` of ${name}`}?`}
          deed="Cancel the job"
          onClose={() => setIsAsking(false)}
          run={async () => {
            await ask(`/v1/preview/training-jobs/${encodeURIComponent(job.id)}/cancel`, { method: 'POST' })
            props.onChange()
          }}
        >
          <p>It ends without a checkpoint: what its gradient steps learned is lost.</p>
        </Confirm>
      )}
      {job.error_message !== null && (
        <div class="failure" role="alert">
          <p>
            <Prose text={job.error_message} />
          </p>
          {job.error_code !== null && (
            <p class="soft small">
              <code>{job.error_code}</code>
            </p>
          )}
        </div>
      )}
      {job.warnings.length > 0 && (
        <ul class="warnings open">
          {job.warnings.map((warning) => (
            <li key={warning}>
              <Prose text={warning} />
            </li>
          ))}
        </ul>
      )}
      <Figures job={job} events={events} />
      {job.group_count !== null && isFinished(job.status) && <EpisodesOfJob id={job.id} />}
      <GradientCharts events={events} />
      {KINDS[job.kind].data === 'rows' ? (
        <TrainedRows job={job} />
      ) : (
        job.group_count === null &&
        isFinished(job.status) && (
          <p class="soft">What it trained on is not kept, so that there are no rollouts to read.</p>
        )
      )}
      <LeftOut job={job} />
      <section class="stack" aria-labelledby="log">
        <h2 id="log">Log</h2>
        {events.length === 0 ? <Empty>Nothing has happened yet.</Empty> : <LiveLog lines={toLines(events)} />}
      </section>
      <Options job={job} model={model.data} />
      <CopyAs cli={command`trainyard jobs get ${job.id}`} path={`/v1/preview/training-jobs/${job.id}`} />
    </>
  )
}

/** Of which model it is, and when it was made. */
function Made({ job, model }: { readonly job: TrainingJob; readonly model: Model | null }): JSX.Element {
  return (
    <p class="soft">
      {model !== null && (
        <>
          <a href={hrefOf(modelPath(model))}>{model.name}</a>
          {' · '}
        </>
      )}
      {job.step === null ? '' : `made step ${job.step} · `}
      {job.attempt > 1 ? `attempt ${job.attempt} · ` : ''}
      {`created ${formatTime(job.created_at, nowMs())}`}
    </p>
  )
}

/** Ends the job after its gradient step, with a checkpoint: nothing is lost, so nothing is asked. */
function StopAndKeep({ job, onChange }: { readonly job: TrainingJob; readonly onChange: () => void }): JSX.Element {
  const [problem, setProblem] = useState<ApiError | null>(null)
  const missing = missingScope('write')
  const isStopping = job.is_stop_requested
  return (
    <>
      <button
        type="button"
        disabled={missing !== null || isStopping || job.is_cancel_requested}
        title={missing ?? 'it makes a checkpoint after the gradient step it is in'}
        onClick={() => {
          setProblem(null)
          ask(`/v1/preview/training-jobs/${encodeURIComponent(job.id)}/stop`, { method: 'POST' })
            .catch((raw: unknown) => setProblem(toApiError(raw)))
            .finally(onChange)
        }}
      >
        {isStopping ? 'Stopping…' : 'Stop and keep'}
      </button>{' '}
      {problem !== null && <span class="wrong">{problem.message}</span>}
    </>
  )
}

/** `trainyard 0.1.0, torch 2.13.0`. */
function versionsOf(versions: Readonly<Record<string, string>>): string {
  return Object.entries(versions)
    .map(([program, version]) => `${program} ${version}`)
    .join(', ')
}

function Figures({
  job,
  events,
}: {
  readonly job: TrainingJob
  readonly events: readonly TrainingEvent[]
}): JSX.Element {
  const last = events.findLast(({ type }) => type === 'gradient_step')?.data ?? {}
  const speed = last['tokens_per_second']
  const memory = job.report?.facts['memory']
  const took =
    job.training_start === null || job.training_end === null
      ? null
      : Date.parse(job.training_end) - Date.parse(job.training_start)
  const figures: readonly (readonly [string, ComponentChildren])[] = [
    ...(job.status !== 'running' && job.num_gradient_steps === 0
      ? []
      : [['Progress', <Progress key="progress" job={job} />] as const]),
    ...(took === null ? [] : [['Took', formatSeconds(took / 1000)] as const]),
    ...(remaining(job) === '' ? [] : [['Time', remaining(job)] as const]),
    ...(typeof speed === 'number' ? [['Speed', `${formatCount(Math.round(speed))} tokens/s`] as const] : []),
    ...(job.report === null ? [] : [['Trained', plural(job.report.trained_tokens, 'token')] as const]),
    ...(job.worker === null
      ? []
      : [
          [
            'Worker',
            <span key="worker" title={versionsOf(job.worker.versions)}>
              {`${job.worker.name}, ${job.worker.trainer} on ${job.worker.device}`}
            </span>,
          ] as const,
        ]),
    ...(memory?.['needed_bytes'] === undefined
      ? []
      : [['Memory', `${formatBytes(memory['needed_bytes'])} of ${formatBytes(memory['available_bytes'])}`] as const]),
  ]
  return (
    <dl class="figures card">
      {figures.map(([title, value]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {job.report !== null && (
        <div>
          <dt>Where the time went</dt>
          <dd class="small">
            {Object.entries(job.report.seconds)
              .filter(([, seconds]) => seconds >= 0.001)
              .map(([part, seconds]) => `${lowerWordsOf(part)} ${formatSeconds(seconds)}`)
              .join(' → ')}
          </dd>
        </div>
      )}
    </dl>
  )
}

const FIRST_EXAMPLES = 6

/** Where it is as the plan and the log name it, which here is a way there. */
function LeftOutExample(props: {
  readonly job: TrainingJob
  readonly example: string
  readonly isFirst: boolean
}): JSX.Element {
  const [, group, trajectory] = /^trajectory_groups\[(\d+)\](?:\.trajectories\[(\d+)\])?/.exec(props.example) ?? []
  const below = trajectory === undefined ? `/${group}` : `/${group}/${trajectory}`
  return (
    <>
      {props.isFirst ? '' : ', '}
      {group === undefined || props.job.group_count === null ? (
        props.example
      ) : (
        <a href={hrefOf(groupsPath(props.job.id, below))}>
          {trajectory === undefined ? `group ${group}` : `trajectory ${trajectory} of group ${group}`}
        </a>
      )}
    </>
  )
}

function LeftOut({ job }: { readonly job: TrainingJob }): JSX.Element | null {
  const left = job.report?.left_out ?? []
  if (left.length === 0) return null
  return (
    <section class="stack" aria-labelledby="left-out">
      <h2 id="left-out">Left out of training</h2>
      <ul>
        {left.map(({ reason, count, examples }) => (
          <li key={reason}>
            {wordsOf(reason)}: {formatCount(count)}{' '}
            <span class="soft small">
              {examples.slice(0, FIRST_EXAMPLES).map((example, i) => (
                <LeftOutExample key={example} job={job} example={example} isFirst={i === 0} />
              ))}
              {examples.length > FIRST_EXAMPLES && ' …'}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** Every option, those that were asked for first. */
function Options({ job, model }: { readonly job: TrainingJob; readonly model: Model | null }): JSX.Element {
  const given = new Set(Object.keys(job.config))
  const all = Object.entries(job.resolved_config ?? job.config)
  const rows = [...all.filter(([name]) => given.has(name)), ...all.filter(([name]) => !given.has(name))]
  return (
    <details class="card" open={given.size > 0 && given.size <= 8}>
      <summary>
        <h2>Options</h2> <span class="soft">{formatCount(given.size)} set, the others by default</span>
      </summary>
      <dl class="pairs">
        {rows.map(([name, value]) => (
          <div key={name} class={given.has(name) ? '' : 'soft'}>
            <dt>
              <Name of={name} />
            </dt>
            <dd>
              {value === null ? (
                'not set'
              ) : typeof value === 'number' ? (
                formatNumber(value)
              ) : (
                <code>{typeof value === 'string' ? value : JSON.stringify(value)}</code>
              )}
              <span class="tag">{given.has(name) ? 'set' : 'default'}</span>
            </dd>
          </div>
        ))}
      </dl>
      {model !== null && (
        <p class="downloads">
          <a href={hrefOf(repeatPath(job, model))}>Repeat with changes</a>
        </p>
      )}
    </details>
  )
}

/** Lines by their events, which never change: of thousands only the new ones are written. */
const lines = new WeakMap<TrainingEvent, LogLine>()

function toLines(events: readonly TrainingEvent[]): readonly LogLine[] {
  const at = nowMs()
  let step = 0
  return events.map((event): LogLine => {
    if (event.type === 'gradient_step') step += 1
    const known = lines.get(event)
    if (known !== undefined) return known
    const line = toLine(event, step, at)
    lines.set(event, line)
    return line
  })
}

function toLine(event: TrainingEvent, step: number, at: number): LogLine {
  const line = { id: event.id, time: formatTime(event.created_at, at) }
  const number = (key: string) => formatNumber(event.data[key] as number | null | undefined)
  const count = (key: string, noun: string) => plural(Number(event.data[key] ?? 0), noun)
  switch (event.type) {
    case 'training_started':
      return {
        ...line,
        text: `started: ${count('num_sequences', 'gradient step')}; tokens that train: ${number('num_trainable_tokens')}`,
      }
    case 'gradient_step': {
      const figures = [
        ['loss', 'loss'],
        ['KL', 'kl_div'],
        ['entropy', 'entropy'],
        ['gradient', 'grad_norm'],
      ].flatMap(([title, key = '']) => (typeof event.data[key] === 'number' ? [`${title} ${number(key)}`] : []))
      return { ...line, text: `gradient step ${step}  ${figures.join('  ')}` }
    }
    case 'training_ended':
      return { ...line, text: `ended: step ${number('step')}` }
    default:
      return { ...line, text: `failed: ${String(event.data['error_message'] ?? 'no reason given')}`, isBad: true }
  }
}
