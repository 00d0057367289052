/**
 * `/ui/models/:project/:name/marks`: what readers think of answers of a model, as rows to download or to train on.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import {
  isConversationForm,
  LEFT_OUT_WORDS,
  MARK_FORMS,
  MARKS,
  type MarkForm,
} from '#contract/wire/training/mark-words.js'
import type { FileFromMarks, Mark } from '#contract/wire/training/marks.js'
import { go, hrefOf, query, route, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask, askAll } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { saveFile } from '../data/download.js'
import { formatAgo, plural } from '../data/format.js'
import { useGone, useLoad } from '../data/load.js'
import { contentOf, marksApi } from '../data/marks.js'
import { groupsPath } from '../data/rollouts.js'
import { missingScope } from '../data/session.js'
import { KINDS } from '../data/train/kinds.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { ModelHeader, useModel } from '../parts/model-header.js'

const MOST = 500
/** Characters of a text that are shown before a click. */
const LONG = 600

interface Found {
  readonly model: Model
  readonly marks: readonly Mark[]
  readonly hasMore: boolean
}

export function MarksPage(): JSX.Element {
  const { project = '', name = '' } = route.value.params
  const only = MARKS.find((word) => word === query.value.get('only')) ?? null
  const owner = useModel(project, name)
  const model = owner.data
  const key = model === null ? null : `marks of ${model.id} ${only ?? ''}`
  const found = useLoad(key, async (signal): Promise<Found> => {
    if (model === null) throw new Error('there is no model yet')
    const path = marksApi(model.id, only === null ? '' : `?mark=${only}`)
    const { data, hasMore } = await askAll<Mark>(path, { signal, most: MOST })
    return { model, marks: data, hasMore }
  })
  return (
    <>
      <ModelHeader project={project} name={name} tab="Marks" />
      {owner.error !== null && <Failure error={owner.error} onRetry={owner.reload} />}
      {(model !== null || owner.error === null) && (
        <Block of={found} height="16rem">
          {(data) =>
            data.marks.length === 0 && only === null ? (
              <Empty
                command={command`trainyard marks add ${name} good --project ${project} --job latest --group 0 --trajectory 0`}
              >
                Nothing is marked. Mark answers good or bad in Play, or on a trajectory of a job: they become rows to
                train on.
              </Empty>
            ) : (
              <>
                <Rows model={data.model} />
                <List {...data} only={only} reload={found.reload} />
              </>
            )
          }
        </Block>
      )}
      {found.data !== null && (
        <CopyAs cli={command`trainyard marks list ${name} --project ${project}`} path={marksApi(found.data.model.id)} />
      )}
    </>
  )
}

const FORMS = MARK_FORMS.map((form) => ({
  form,
  title: KINDS[form].title,
  what: isConversationForm(form)
    ? 'good answers, and bad ones as they were edited'
    : 'edited over bad answers, pairs, and good over bad answers to one prompt',
}))

/** What can be made of the marks. */
function Rows({ model }: { readonly model: Model }): JSX.Element {
  const [isBusy, setIsBusy] = useState(false)
  const [made, setMade] = useState<FileFromMarks | null>(null)
  const [problem, setProblem] = useState<ApiError | null>(null)
  const gone = useGone()
  const missing = missingScope('write')
  async function make(form: MarkForm, next: 'save' | 'train'): Promise<void> {
    setIsBusy(true)
    setProblem(null)
    setMade(null)
    try {
      const file = await ask<FileFromMarks>('/v1/files/from-marks', { json: { model_id: model.id, form } })
      if (gone.aborted) return
      if (next === 'train') {
        const m = encodeURIComponent(`${model.project}/${model.name}`)
        return go(`/train?kind=${form}&m=${m}&file=${encodeURIComponent(file.id)}`)
      }
      await saveFile(`/v1/files/${encodeURIComponent(file.id)}/content`, file.filename)
      if (!gone.aborted) setMade(file)
    } catch (raw) {
      if (!gone.aborted) setProblem(toApiError(raw))
    }
    if (!gone.aborted) setIsBusy(false)
  }
  const why = (made?.left_out ?? []).map(({ reason, count }) => `${count} ${LEFT_OUT_WORDS[reason]}`)
  return (
    <section class="card" aria-labelledby="rows">
      <h2 id="rows">Train on them</h2>
      <ul class="plain">
        {FORMS.map(({ form, title, what }) => (
          <li key={form} class="row">
            <span>
              <strong>{title}</strong> <span class="tag">{form}</span>
              <span class="soft small"> {what}</span>
            </span>
            <span class="row push">
              <button
                type="button"
                aria-label={`Download ${title.toLowerCase()}`}
                disabled={isBusy || missing !== null}
                title={missing ?? undefined}
                onClick={() => void make(form, 'save')}
              >
                Download
              </button>
              <button
                type="button"
                aria-label={`Train on ${title.toLowerCase()}`}
                disabled={isBusy || missing !== null}
                title={missing ?? undefined}
                onClick={() => void make(form, 'train')}
              >
                Train…
              </button>
            </span>
          </li>
        ))}
      </ul>
      <p class="small soft" role="status">
        {made === null
          ? 'Train… shows the plan first. Each makes a file on the server, which stays when marks change.'
          : `${plural(made.rows, 'row')} of ${plural(made.marks, 'mark')}${why.length === 0 ? '' : `; left out: ${why.join(', ')}`}.`}
      </p>
      {problem !== null && (
        <p class="wrong" role="alert">
          {problem.message}. {problem.hint}
        </p>
      )}
    </section>
  )
}

function List(props: Found & { readonly only: Mark['mark'] | null; readonly reload: () => void }): JSX.Element {
  const { model, marks, hasMore, only, reload } = props
  const [problem, setProblem] = useState<ApiError | null>(null)
  const missing = missingScope('write')
  const at = nowMs()
  async function remove(mark: Mark): Promise<void> {
    setProblem(null)
    await ask(marksApi(model.id, `/${encodeURIComponent(mark.id)}`), { method: 'DELETE' }).catch((raw: unknown) =>
      setProblem(toApiError(raw)),
    )
    reload()
  }
  return (
    <>
      <div class="row options">
        <label>
          Show{' '}
          <select value={only ?? ''} onChange={(event) => setQuery({ only: event.currentTarget.value || null })}>
            <option value="">all marks</option>
            <option value="good">good</option>
            <option value="bad">bad</option>
          </select>
        </label>
        <span class="soft small">
          {hasMore ? `the newest ${marks.length}` : plural(marks.length, 'mark')}; each is a copy, and stays when its
          trajectory goes
        </span>
      </div>
      {problem !== null && (
        <p class="wrong" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
      <ul class="plain marks">
        {marks.map((mark) => (
          <li key={mark.id} class="card">
            <p class="row">
              <span class={`status ${mark.mark === 'good' ? 'completed' : 'failed'}`}>{mark.mark}</span>
              <span class="soft small">
                <Source mark={mark} />
                {mark.step === null ? '' : ` · step ${mark.step}`} · {formatAgo(mark.updated_at, at)}
              </span>
              <button
                type="button"
                class="link push"
                disabled={missing !== null}
                title={missing ?? undefined}
                onClick={() => void remove(mark)}
              >
                Delete
              </button>
            </p>
            <Said who={String(mark.prompt.at(-1)?.['role'] ?? 'asked')} text={contentOf(mark.prompt.at(-1))} />
            <Said who="answer" text={contentOf(mark.answer.at(-1))} />
            {mark.edited !== null && <Said who="should have said" text={mark.edited} />}
            {mark.other !== null && (
              <Said who={mark.mark === 'good' ? 'better than' : 'worse than'} text={contentOf(mark.other.at(-1))} />
            )}
            {mark.note !== null && <p class="small soft">{mark.note}</p>}
          </li>
        ))}
      </ul>
    </>
  )
}

function Source({ mark }: { readonly mark: Mark }): JSX.Element {
  const { training_job_id: job, group, trajectory } = mark
  if (job !== null) return <a href={hrefOf(groupsPath(job, `/${group}/${trajectory}`))}>trajectory of a job</a>
  return <>{mark.source === 'log' ? 'evaluation' : 'chat'}</>
}

function Said({ who, text }: { readonly who: string; readonly text: string }): JSX.Element {
  return (
    <div class="message">
      <p class="small soft">{who}</p>
      <p class="raw">{text === '' ? '(nothing)' : text.slice(0, LONG)}</p>
      {text.length > LONG && (
        <details>
          <summary class="soft small">{text.length - LONG} characters more</summary>
          <p class="raw">{text.slice(LONG)}</p>
        </details>
      )}
    </div>
  )
}
