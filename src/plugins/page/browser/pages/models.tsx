/**
 * `/ui/`: what runs now, what needs attention, and all models.
 */

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { List } from '#contract/wire/list.js'
import type { BaseModel, ListedModel, Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { plural } from '../data/format.js'
import { takeProgress } from '../data/job-progress.js'
import { live } from '../data/live.js'
import { useLoad } from '../data/load.js'
import { useRows } from '../data/rows.js'
import { Block, Command, Empty } from '../parts/block.js'
import { DemoCard, DemoLine } from '../parts/demo.js'
import { JobLine } from '../parts/job-line.js'
import { isForPage } from '../parts/keys.js'
import { Title } from '../parts/layout.js'
import { LiveMark } from '../parts/live-mark.js'
import { ModelRows, RowOptions } from '../parts/model-rows.js'

const LAST_ACTIVE = '-last_active'
const ORDERS = [
  [LAST_ACTIVE, 'last active'],
  ['-created', 'newest'],
  ['created', 'oldest'],
  ['name', 'name'],
] as const
const BUSY_MS = 2000
const TYPING_MS = 250
const RECORD_MS = 10_000
const IDLE_MS = 15_000
/** Of those that run, and of those that wait. */
const MOST_ACTIVE = 10

export function ModelsPage(): JSX.Element {
  return (
    <>
      <Title text="Models">
        <LiveMark />
      </Title>
      <Running />
      <DemoLine />
      <ModelTable />
    </>
  )
}

interface Active {
  readonly data: readonly TrainingJob[]
  readonly hasMore: boolean
}

async function readActive(signal: AbortSignal): Promise<Active> {
  const of = (status: string) =>
    ask<List<TrainingJob>>(`/v1/preview/training-jobs?status=${status}&limit=${MOST_ACTIVE}`, { signal })
  const [running, queued] = await Promise.all([of('running'), of('queued')])
  const waiting = [...queued.data].sort((a, b) => (a.queue_position ?? 0) - (b.queue_position ?? 0))
  return { data: [...running.data, ...waiting], hasMore: running.has_more || queued.has_more }
}

function Running(): JSX.Element | null {
  const jobs = useLoad('active', readActive, {
    topics: ['job'],
    take: takeProgress,
    // when a job ends is told by its record alone; without a stream there is no news
    everyMs: live.value === true ? RECORD_MS : BUSY_MS,
  })
  const ids = [...new Set(jobs.data?.data.map((job) => job.model_id))]
  // a loop is between two jobs again and again: what is below must not move with each
  const wasBusy = useRef(false)
  wasBusy.current ||= ids.length > 0
  const models = useLoad(ids.length === 0 ? null : `names of ${ids.join()}`, async (signal) => {
    const found = await Promise.all(
      ids.map((id) => ask<Model>(`/v1/preview/models/${encodeURIComponent(id)}`, { signal }).catch(() => null)),
    )
    return new Map(found.flatMap((model) => (model === null ? [] : [[model.id, model]])))
  })
  if (jobs.error === null && !wasBusy.current) return null
  return (
    <section class="card" aria-labelledby="running">
      <h2 id="running">Running</h2>
      <Block of={jobs} height="3rem">
        {({ data: active, hasMore }) => (
          <ul class="plain">
            {active.length === 0 && <li class="job-line soft">Nothing runs now.</li>}
            {active.map((job) => (
              <JobLine key={job.id} job={job} model={models.data?.get(job.model_id) ?? null} />
            ))}
            {hasMore && (
              <li class="soft">
                There are more: <a href={hrefOf('/jobs')}>all jobs</a>
              </li>
            )}
          </ul>
        )}
      </Block>
    </section>
  )
}

function ModelTable(): JSX.Element {
  const project = query.value.get('project')
  const base = query.value.get('base_model')
  const search = query.value.get('query')
  const order = query.value.get('sort') ?? LAST_ACTIVE
  const filter = [
    ['project', project],
    ['base_model', base],
    ['query', search],
  ].flatMap(([key, value]) => (value === null || value === '' ? [] : [`&${key}=${encodeURIComponent(value ?? '')}`]))
  const hasOptions = query.value.get('options') === '1'
  const path = `/v1/preview/models?include=${hasOptions ? 'options' : 'summary'}&sort=${encodeURIComponent(order)}${filter.join('')}`
  const models = useRows<ListedModel>(path, {
    topics: ['model', 'checkpoint', 'job', 'log'],
    // what a row shows changes with the end of a job
    take: (list, { type }) => (type.startsWith('job.') && type !== 'job.ended' ? list : undefined),
    everyMs: live.value === true ? null : IDLE_MS,
  })
  const isFiltered = filter.length > 0

  return (
    <section aria-label="All models">
      <Filters>
        {models.data !== null && models.data.data.length > 0 && (
          <RowOptions rows={models.data.data} hasOptions={hasOptions} />
        )}
      </Filters>
      <Block of={models} height="16rem">
        {({ data: rows, has_more: hasMore }) => {
          if (rows.length === 0) return isFiltered ? <Empty>No model fits.</Empty> : <Start />
          return (
            <>
              <ModelRows rows={rows} hasOptions={hasOptions} />
              {hasMore && (
                <p class="row">
                  {models.more !== null && (
                    <button type="button" onClick={models.more}>
                      More
                    </button>
                  )}
                  <span class="soft">{plural(rows.length, 'model')} shown, there are more</span>
                </p>
              )}
            </>
          )
        }}
      </Block>
    </section>
  )
}

function Filters({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const bases = useLoad('base-models', (signal) => ask<readonly string[]>('/v1/preview/base-models', { signal }))
  const search = useRef<HTMLInputElement>(null)
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  // who types asks when there is a pause
  const type = (text: string): void => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setQuery({ query: text.trim() || null, rows: null }), TYPING_MS)
  }
  useEffect(() => () => clearTimeout(timer.current), [])
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (event.key !== '/' || !isForPage(event)) return
      event.preventDefault()
      search.current?.focus()
    }
    document.addEventListener('keydown', focus)
    return () => document.removeEventListener('keydown', focus)
  }, [])
  return (
    <search class="row filters">
      <label>
        Search <kbd>/</kbd>
        <input
          ref={search}
          type="search"
          value={query.value.get('query') ?? ''}
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
      <label>
        Base model
        <select
          value={query.value.get('base_model') ?? ''}
          onChange={(event) => setQuery({ base_model: event.currentTarget.value || null, rows: null })}
        >
          <option value="">all</option>
          {bases.data?.map((base) => (
            <option key={base}>{base}</option>
          ))}
        </select>
      </label>
      <label>
        Order
        <select
          value={query.value.get('sort') ?? LAST_ACTIVE}
          onChange={(event) =>
            setQuery({ sort: event.currentTarget.value === LAST_ACTIVE ? null : event.currentTarget.value })
          }
        >
          {ORDERS.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {children}
    </search>
  )
}

/** Three ways to begin. */
function Start(): JSX.Element {
  const bases = useLoad('base-details', (signal) =>
    ask<List<BaseModel>>('/v1/preview/base-models/details?limit=1', { signal }),
  )
  const base = bases.data?.data[0]?.name ?? 'trainyard/spark'
  return (
    <div class="cards">
      <div class="card">
        <DemoCard />
      </div>
      <div class="card">
        <h2>Train on a file</h2>
        <p>Conversations in a JSON Lines file become a model of your own.</p>
        <p>
          <a class="button" href={hrefOf('/train?kind=sft')}>
            Choose a file
          </a>
        </p>
        <p class="soft small">Or in a terminal:</p>
        <Command text={command`trainyard models create my-model --base-model ${base}`} />
        <Command text="trainyard train sft my-model --file rows.jsonl" />
      </div>
      <div class="card">
        <h2>Chat with {base.split('/').at(-1)}</h2>
        <p>The base model answers at once, here or in a terminal.</p>
        <p>
          <a href={hrefOf(`/play?m=${encodeURIComponent(base)}`)}>Open Play</a>
        </p>
      </div>
    </div>
  )
}
