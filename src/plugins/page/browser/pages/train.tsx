/**
 * `/ui/train`: a job, started only after its plan was seen. Kind, model, uploaded file and options stand in the address; a file of this
 * machine cannot, and is chosen again after a reload.
 */

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import type { List } from '#contract/wire/list.js'
import type { ListedModel, Model } from '#contract/wire/models.js'
import type { KindOptions, TrainingOptions } from '#contract/wire/training/option-list.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import { go, hrefOf, query, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { formatBytes } from '../data/format.js'
import { useGone, useLoad } from '../data/load.js'
import { readModel } from '../data/models.js'
import { missingScope } from '../data/session.js'
import { FIRST_KIND, KINDS } from '../data/train/kinds.js'
import { optionsNamedIn, PREFIX, spreadObjects, toConfig, typedOptions } from '../data/train/options.js'
import { type Asked, askPlan, startJob } from '../data/train/request.js'
import { Block, Command, Failure } from '../parts/block.js'
import { Title } from '../parts/layout.js'
import { Rest } from '../parts/rest.js'
import { ChooseData, type Chosen } from '../parts/train/choose-data.js'
import { NewModel } from '../parts/train/new-model.js'
import { OptionFields } from '../parts/train/option-fields.js'
import { PlanPicture } from '../parts/train/plan.js'

export function TrainPage(): JSX.Element {
  const kind = JOB_KINDS.find((each) => each === query.value.get('kind')) ?? FIRST_KIND
  const name = query.value.get('m') ?? ''
  const models = useLoad('models', (signal) =>
    ask<List<ListedModel>>('/v1/preview/models?sort=-last_active&limit=100', { signal }),
  )
  const [project = '', short = ''] = name.split(/\/(.*)/s)
  const model = useLoad(short === '' ? null : name, (signal) => readModel(project, short, signal), {
    keepsOld: false,
  })
  const first = models.data?.data[0]
  useEffect(() => {
    if (name === '' && first !== undefined) setQuery({ m: `${first.project}/${first.name}` })
  }, [name, first])
  return (
    <>
      <Title text="Train" />
      <section class="card" aria-labelledby="what">
        <h2 id="what">What to train on what</h2>
        <fieldset class="kinds">
          <legend class="visually-hidden">Kind of job</legend>
          {JOB_KINDS.map((each) => (
            <label key={each} class={each === kind ? 'kind chosen-kind' : 'kind'}>
              <input
                type="radio"
                name="kind"
                checked={each === kind}
                onChange={() => setQuery({ kind: each, file: null, ...without(typedOptions(query.value)) })}
              />
              <span>
                <strong>{KINDS[each].title}</strong> <span class="tag">{each}</span>
                <span class="soft small"> {KINDS[each].rows}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <label class="field">
          Model
          <input
            list="models-to-train"
            value={name}
            spellcheck={false}
            placeholder="project/name"
            onChange={(event) => setQuery({ m: event.currentTarget.value.trim() })}
          />
        </label>
        <datalist id="models-to-train">
          {models.data?.data.map((each) => (
            <option key={each.id} value={`${each.project}/${each.name}`} />
          ))}
        </datalist>
        <Rest of={models.data} elsewhere="write its name" />
        {models.error !== null && <Failure error={models.error} onRetry={models.reload} />}
        {model.data !== null && (
          <p class="soft small">
            {model.data.base_model} → step {model.data.step}; the job makes step {model.data.step + 1}
          </p>
        )}
        {model.error !== null && model.error.status !== 404 && <Failure error={model.error} onRetry={model.reload} />}
        {(model.error?.status === 404 || (models.data?.data.length === 0 && model.data === null)) && (
          <NewModel
            key={name}
            name={name}
            onMade={(made) => {
              models.reload()
              setQuery({ m: `${made.project}/${made.name}` })
              model.reload()
            }}
          />
        )}
      </section>
      {model.data !== null && <Form key={`${kind} ${model.data.id}`} kind={kind} model={model.data} />}
    </>
  )
}

/** Changes that take typed options out of the address. */
function without(typed: Readonly<Record<string, string>>): Record<string, null> {
  return Object.fromEntries(Object.keys(typed).map((name) => [PREFIX + name, null]))
}

/** Texts of options in the address as it is now. */
function currentOf(known: KindOptions): Readonly<Record<string, string>> {
  return spreadObjects(known, typedOptions(query.value))
}

/** Changes that put texts of options into the address; an empty one takes it out. */
function addressOf(typed: Readonly<Record<string, string>>): Record<string, string | null> {
  return Object.fromEntries(Object.entries(typed).map(([name, text]) => [PREFIX + name, text === '' ? null : text]))
}

function Form({ kind, model }: { readonly kind: JobKind; readonly model: Model }): JSX.Element {
  const base = `/v1/preview/training-options?kind=${kind}&base_model=${encodeURIComponent(model.base_model)}`
  const options = useLoad(base, (signal) => ask<TrainingOptions>(base, { signal }), { keepsOld: false })
  const id = query.value.get('file')
  const [file, setFile] = useState<File | null>(null)
  const chosen: Chosen = id !== null ? { id } : file !== null ? { file } : null
  return (
    <>
      <section class="card" aria-labelledby="data">
        <h2 id="data">Data</h2>
        <ChooseData
          kind={kind}
          chosen={chosen}
          rows={KINDS[kind].rows}
          example={KINDS[kind].example}
          onFile={(next) => {
            setFile(next)
            if (id !== null) setQuery({ file: null })
          }}
          onId={(next) => setQuery({ file: next })}
        />
      </section>
      <Block of={options} height="18rem">
        {({ data: [known] }) => (known === undefined ? null : <Options known={known} model={model} chosen={chosen} />)}
      </Block>
    </>
  )
}

interface Seen {
  /** What was asked, as text: a plan of something else is none. */
  readonly key: string
  readonly plan: TrainingPlan | null
  readonly error: ApiError | null
}

function Options(props: { readonly known: KindOptions; readonly model: Model; readonly chosen: Chosen }): JSX.Element {
  const { known, model, chosen } = props
  const typed = currentOf(known)
  const config = toConfig(known, typed)
  const [seen, setSeen] = useState<Seen | null>(null)
  const [busy, setBusy] = useState<'plan' | 'start' | null>(null)
  const gone = useGone()
  const asked: Asked | null =
    chosen === null ? null : { kind: known.kind, modelId: model.id, source: chosen, root: known.root, config }
  const key = JSON.stringify([model.id, model.step, nameOfSource(chosen), config])
  const isSeen = seen?.key === key
  const plan = isSeen ? (seen.plan ?? null) : null
  const missing = missingScope('write')

  async function run(what: 'plan' | 'start'): Promise<void> {
    if (asked === null || busy !== null) return
    setBusy(what)
    try {
      if (what === 'plan') {
        const next = await askPlan(asked, gone)
        if (gone.aborted) return
        setSeen({ key, plan: next, error: null })
      } else {
        const { id } = await startJob(asked)
        if (gone.aborted) return
        go(`/jobs/${id}`)
      }
    } catch (raw) {
      if (gone.aborted) return
      setSeen({ key, plan: what === 'start' ? plan : null, error: toApiError(raw) })
    }
    setBusy(null)
  }

  const whyNot =
    missing ??
    (asked === null
      ? 'choose data first'
      : plan === null
        ? seen === null
          ? 'look at its plan first'
          : 'something was changed since: look at its plan again'
        : plan.refusal !== null
          ? 'the plan says that it would fail'
          : null)
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (plan !== null) heading.current?.focus()
  }, [plan])
  return (
    <div class={plan === null ? 'stack form' : 'form planned'}>
      <div class="stack">
        <section class="card" aria-labelledby="options">
          <h2 id="options">Options</h2>
          <OptionFields
            known={known}
            typed={typed}
            onType={(name, text) =>
              setQuery({ ...without(typedOptions(query.value)), ...addressOf({ ...currentOf(known), [name]: text }) })
            }
          />
        </section>
        <div class="row start">
          <button
            type="button"
            class={plan === null ? 'primary' : ''}
            disabled={asked === null || busy !== null || missing !== null}
            title={missing ?? undefined}
            onClick={() => void run('plan')}
          >
            {busy === 'plan' ? 'Planning…' : 'Show the plan'}
          </button>
          <button
            type="button"
            class={plan === null ? '' : 'primary'}
            disabled={whyNot !== null || busy !== null}
            aria-describedby="why-not"
            onClick={() => void run('start')}
          >
            {busy === 'start' ? 'Starting…' : 'Start the job'}
          </button>
          <span class="soft small" id="why-not" role="status">
            {busy === 'plan'
              ? 'reads every row as the job will, and measures for two seconds'
              : (whyNot ?? 'this is what will run')}
          </span>
        </div>
        {isSeen && seen.error !== null && <Failure error={seen.error} />}
      </div>
      {plan !== null && (
        <section class="stack plan-beside" aria-labelledby="plan">
          <h2 id="plan" ref={heading} tabIndex={-1}>
            Plan
          </h2>
          <PlanPicture
            plan={plan}
            onSentence={(sentence) =>
              optionsNamedIn(sentence, known).map((name) => (
                <button key={name} type="button" class="link" onClick={() => focusOption(name)}>
                  change {name}
                </button>
              ))
            }
          />
        </section>
      )}
      <details class="copy-as">
        <summary>The same in a terminal</summary>
        <div class="stack">
          <Command text={commandOf(model, known.kind, chosen, config)} />
          <p class="small">
            Without <code>--plan</code> it starts. <a href={hrefOf('/jobs')}>Jobs</a> shows what runs.
          </p>
        </div>
      </details>
    </div>
  )
}

function nameOfSource(chosen: Chosen): string {
  if (chosen === null) return ''
  if ('id' in chosen) return chosen.id
  const { name, size, lastModified } = chosen.file
  return `${name} ${formatBytes(size)} ${size} ${lastModified}`
}

/** Opens what hides the field of an option, and goes there. */
function focusOption(name: string): void {
  const field =
    document.getElementById(`option-${name}`) ??
    document.querySelector<HTMLElement>(`[id^="option-${CSS.escape(name)}."]`)
  const hiding = field?.closest('details')
  if (hiding != null) hiding.open = true
  field?.focus()
  field?.scrollIntoView({ block: 'center' })
}

function commandOf(model: Model, kind: JobKind, chosen: Chosen, config: Readonly<Record<string, unknown>>): string {
  const data =
    chosen === null
      ? ['--file', 'rows.jsonl']
      : 'id' in chosen
        ? ['--data-url', chosen.id]
        : ['--file', chosen.file.name]
  const sets = Object.entries(config).flatMap(([name, value]) => [
    '--set',
    `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  ])
  return command`trainyard train ${kind} ${`${model.project}/${model.name}`} ${[...data, ...sets]} --plan`
}
