/**
 * `/ui/loops/:id`: one loop, live: how its rewards go, what each grader says, what fails, what it costs, the best and the worst
 * answers, its jobs; pause, resume, cancel.
 */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { FileObject } from '#contract/wire/files.js'
import type { Model } from '#contract/wire/models.js'
import { hrefOf, route } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask, askAll } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatCount, formatNumber, formatSeconds, formatTime, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import {
  isOver,
  type Loop,
  type LoopAnswers,
  type LoopEvent,
  type LoopMetrics,
  loopApi,
  MOST_EVENTS,
  PHASES,
  useLoop,
  useOfSteps,
} from '../data/loops.js'
import { modelPath } from '../data/match.js'
import { missingScope } from '../data/session.js'
import { Block, Empty } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { StatusTag } from '../parts/job-line.js'
import { Title } from '../parts/layout.js'
import { LiveMark } from '../parts/live-mark.js'
import { LiveLog } from '../parts/log.js'
import { LoopAnswersList } from '../parts/loops/answers.js'
import { LoopCharts } from '../parts/loops/charts.js'
import { LoopProgress } from '../parts/loops/progress.js'
import { Spent } from '../parts/loops/spent.js'
import { LoopSteps } from '../parts/loops/steps.js'
import { DoesItLearn } from '../parts/model-header.js'
import { Name, Prose } from '../parts/prose.js'

const POINTS = 500

export function LoopPage(): JSX.Element {
  const { id = '' } = route.value.params
  const [isEnded, setIsEnded] = useState(false)
  const loop = useLoop(id, isEnded)
  const isFinal = loop.data !== null && isOver(loop.data)
  useEffect(() => setIsEnded(isFinal), [isFinal])
  if (loop.data === null) {
    return (
      <>
        <Title text="Loop" />
        <Block of={loop} height="30rem">
          {() => null}
        </Block>
      </>
    )
  }
  return (
    <Block of={loop} height="30rem">
      {(record) => <Shown loop={record} onChange={loop.reload} />}
    </Block>
  )
}

function Shown({ loop, onChange }: { readonly loop: Loop; readonly onChange: () => void }): JSX.Element {
  const model = useLoad(loop.model_id, (signal) =>
    ask<Model>(`/v1/preview/models/${encodeURIComponent(loop.model_id)}`, { signal }),
  )
  const metrics = useOfSteps(loop, `/metrics?points=${POINTS}`, (path, signal) => ask<LoopMetrics>(path, { signal }))
  const answers = useOfSteps(loop, '/answers', (path, signal) => ask<LoopAnswers>(path, { signal }))
  const name = model.data?.name ?? 'a model'
  return (
    <>
      <Title text={`Loop of ${name}`}>
        <StatusTag job={loop} />
        {!isOver(loop) && <LiveMark />}
        <p class="actions">
          <a class="button" href={hrefOf(`/graders?loop=${encodeURIComponent(loop.id)}`)}>
            Try its grader
          </a>
        </p>
        {!isOver(loop) && <Deeds loop={loop} name={name} onChange={onChange} />}
      </Title>
      <p class="soft">
        {model.data !== null && <a href={hrefOf(modelPath(model.data))}>{model.data.name}</a>}
        {` · grader ${String(loop.grader['name'] ?? loop.grader['type'])} · created ${formatTime(loop.created_at, nowMs())}`}
      </p>
      {loop.error !== null && (
        <div class="failure" role="alert">
          <p>
            <Prose text={loop.error.message} />
          </p>
          <p class="soft small">
            <code>{loop.error.code}</code>
          </p>
        </div>
      )}
      {model.data !== null && <DoesItLearn model={model.data} />}
      <Now loop={loop} />
      <Block of={metrics} height="24rem">
        {(known) =>
          known.steps.length === 0 ? (
            <Empty>No step has ended yet: its rewards appear here.</Empty>
          ) : (
            <LoopCharts metrics={known} />
          )
        }
      </Block>
      <Block of={answers} height="12rem">
        {(found) => <LoopAnswersList answers={found} loopId={loop.id} />}
      </Block>
      {metrics.data !== null && <Spent loop={loop} totals={metrics.data.totals} />}
      {metrics.data !== null && metrics.data.steps.length > 0 && <LoopSteps metrics={metrics.data} />}
      <Said loop={loop} />
      <Options loop={loop} />
      <CopyAs cli={command`trainyard loops get ${loop.id}`} path={loopApi(loop.id)} />
    </>
  )
}

function Deeds(props: { readonly loop: Loop; readonly name: string; readonly onChange: () => void }): JSX.Element {
  const { loop } = props
  const [problem, setProblem] = useState<ApiError | null>(null)
  const [asked, setAsked] = useState<string | null>(null)
  const [isCancelling, setIsCancelling] = useState(false)
  const missing = missingScope('write')
  const act = (deed: 'pause' | 'resume'): void => {
    setProblem(null)
    ask(loopApi(loop.id, `/${deed}`), { method: 'POST' })
      .then(() => setAsked(deed === 'pause' ? loop.status : null))
      .catch((raw: unknown) => setProblem(toApiError(raw)))
      .finally(props.onChange)
  }
  // it pauses where a phase ends
  const isPausing = asked === loop.status && loop.status === 'running'
  const isPaused = loop.status === 'paused' || isPausing
  return (
    <p class="actions">
      <button
        type="button"
        disabled={missing !== null}
        title={missing ?? (isPaused ? undefined : 'it ends the phase it is in')}
        onClick={() => act(isPaused ? 'resume' : 'pause')}
      >
        {isPausing ? 'Pausing…' : isPaused ? 'Resume' : 'Pause'}
      </button>{' '}
      <button
        type="button"
        class="danger"
        disabled={missing !== null}
        title={missing ?? undefined}
        onClick={() => setIsCancelling(true)}
      >
        Cancel
      </button>
      {problem !== null && <span class="wrong"> {problem.message}</span>}
      {isCancelling && (
        <Confirm
          title={`Cancel this loop of ${props.name}?`}
          deed="Cancel the loop"
          onClose={() => setIsCancelling(false)}
          run={async () => {
            await ask(loopApi(loop.id, '/cancel'), { method: 'POST' })
            props.onChange()
          }}
        >
          <p>The step that runs is lost. The model keeps its checkpoints.</p>
        </Confirm>
      )}
    </p>
  )
}

/** How far it is, and which phase the step is in. */
function Now({ loop }: { readonly loop: Loop }): JSX.Element {
  const first = loop.evaluations[0]
  const last = loop.evaluations.at(-1)
  return (
    <dl class="figures card">
      <div>
        <dt>Progress</dt>
        <dd>
          <LoopProgress loop={loop} />
        </dd>
      </div>
      {loop.phase !== null && (
        <div>
          <dt>Step {formatCount(Math.min(loop.steps, loop.step + 1))}</dt>
          <dd>
            <ol class="phases">
              {PHASES.map((phase) => (
                <li key={phase} aria-current={phase === loop.phase ? 'step' : undefined}>
                  {phase}
                </li>
              ))}
            </ol>
          </dd>
        </div>
      )}
      {last !== undefined && (
        <div>
          <dt>Reward, held out</dt>
          <dd>
            {first === undefined || first === last ? '' : `${formatNumber(first.valid_reward)} → `}
            <strong>{formatNumber(last.valid_reward)}</strong>
          </dd>
        </div>
      )}
      <div>
        <dt>Time</dt>
        <dd>{formatSeconds(loop.used.seconds)}</dd>
      </div>
      <div>
        <dt>Tokens trained</dt>
        <dd>{formatCount(loop.used.trained_tokens)}</dd>
      </div>
      {loop.training_job_id !== null && (
        <div>
          <dt>Its job</dt>
          <dd>
            <a href={hrefOf(`/jobs/${loop.training_job_id}`)}>watch it</a>
          </dd>
        </div>
      )}
    </dl>
  )
}

/** What was said of it; numbers of steps are in the charts. */
function Said({ loop }: { readonly loop: Loop }): JSX.Element {
  const events = useOfSteps(loop, '/events?type=message', (path, signal) =>
    askAll<LoopEvent>(path, { signal, most: MOST_EVENTS }),
  )
  const at = nowMs()
  return (
    <section class="stack" aria-labelledby="log">
      <h2 id="log">Log</h2>
      <Block of={events} height="8rem">
        {({ data, hasMore }) => (
          <>
            {data.length === 0 && <Empty>Nothing was said yet: the numbers of its steps are above.</Empty>}
            {data.length > 0 && (
              <LiveLog
                lines={data.map(({ id, created_at: time, message, level }) => ({
                  ...{ id, time: formatTime(time, at), text: message, isBad: level === 'error' },
                }))}
              />
            )}
            {hasMore && <p class="soft small">The first {formatCount(data.length)}, there are more.</p>}
          </>
        )}
      </Block>
    </section>
  )
}

const CHOSEN = [
  'prompts_per_step',
  'answers_per_prompt',
  'evaluate_every',
  'held_out_rows',
  'answers_per_held_out',
  'seed',
  'sampling',
  'response_format',
  'config',
] as const

/** By its name, where it is still there. */
function FileLink({ id }: { readonly id: string }): JSX.Element {
  const file = useLoad(`file ${id}`, (signal) => ask<FileObject>(`/v1/files/${encodeURIComponent(id)}`, { signal }))
  const name = file.data?.filename ?? (file.error === null ? '…' : 'a file that is gone')
  return (
    <>
      <a href={hrefOf(`/data?file=${encodeURIComponent(id)}`)} title={id}>
        {withoutTurns(name)}
      </a>{' '}
    </>
  )
}

function Options({ loop }: { readonly loop: Loop }): JSX.Element {
  const files = [loop.prompts_file, loop.held_out_file].flatMap((id) => id ?? [])
  const text = (value: unknown): string =>
    value === null || value === undefined
      ? 'not set'
      : typeof value === 'object'
        ? JSON.stringify(value)
        : String(value)
  return (
    <details class="card">
      <summary>
        <h2>Options</h2> <span class="soft">grader, rows, sampling, training</span>
      </summary>
      <dl class="pairs">
        <div>
          <dt>Rows</dt>
          <dd>
            {files.map((id) => (
              <FileLink key={id} id={id} />
            ))}
          </dd>
        </div>
        {CHOSEN.map((key) => (
          <div key={key}>
            <dt>
              <Name of={key} />
            </dt>
            <dd>
              <code>{text(loop[key])}</code>
            </dd>
          </div>
        ))}
      </dl>
      <h3>Grader</h3>
      <pre class="raw">{JSON.stringify(loop.grader, null, 2)}</pre>
    </details>
  )
}
