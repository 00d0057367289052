/**
 * `/ui/models/:project/:name/watch`: prompts that every step of a model answers, a step beside the base model or another step.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import { MAX_PROBES } from '#contract/wire/inference/probe-words.js'
import type { Probe } from '#contract/wire/inference/probes.js'
import type { List } from '#contract/wire/list.js'
import type { Model } from '#contract/wire/models.js'
import { query, route, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { useLoad } from '../data/load.js'
import { missingScope } from '../data/session.js'
import { Block, Empty } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { ModelHeader, useModel } from '../parts/model-header.js'
import { Asked } from '../parts/pairs.js'
import { AddProbe } from '../parts/watch/add-probe.js'
import { AnswerOf, nameOfStep } from '../parts/watch/answer.js'
import { History } from '../parts/watch/history.js'

export function WatchPage(): JSX.Element {
  const { project = '', name = '' } = route.value.params
  const model = useModel(project, name)
  return (
    <>
      <ModelHeader project={project} name={name} tab="Watch" />
      <Block of={model} height="24rem">
        {(found) => <Probes key={found.id} model={found} />}
      </Block>
    </>
  )
}

/** A step of the address; null for none. */
function stepIn(name: string): number | null {
  const text = query.value.get(name)
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null
}

function Probes({ model }: { readonly model: Model }): JSX.Element {
  const at = Math.min(stepIn('at') ?? model.step, model.step)
  const isBefore = query.value.get('from') === 'before'
  const from = isBefore ? Math.max(0, at - 1) : (stepIn('from') ?? 0)
  const base = `/v1/preview/models/${encodeURIComponent(model.id)}/probes`
  const path = `${base}?steps=${from === at ? at : `${from},${at}`}&limit=${MAX_PROBES}`
  const loaded = useLoad(path, (signal) => ask<List<Probe>>(path, { signal }), {
    topics: ['probe', 'checkpoint'],
    modelId: model.id,
  })
  return (
    <>
      <p class="soft">
        Each new step answers these prompts after its job, greedily and behind all chats: the same question, again and
        again.
      </p>
      <Block of={loaded} height="16rem">
        {({ data }) => (
          <>
            {data.length > 0 && model.step > 0 && <Steps model={model} at={at} from={from} isBefore={isBefore} />}
            {data.length === 0 && (
              <Empty command={command`trainyard probes add ${model.name} --project ${model.project} "I am sad today."`}>
                No prompt is watched: add one, and see how the answer changes from step to step.
              </Empty>
            )}
            {data.length > 0 && (
              <ol class="plain stack probes">
                {data.map((probe) => (
                  <Card key={probe.id} probe={probe} base={base} from={from} at={at} onChange={loaded.reload} />
                ))}
              </ol>
            )}
            {data.length < MAX_PROBES ? (
              <AddProbe path={base} isOpen={data.length === 0} onAdded={loaded.reload} />
            ) : (
              <p class="soft">These are the {MAX_PROBES} that a model may have: delete one to add another.</p>
            )}
          </>
        )}
      </Block>
      <CopyAs cli={command`trainyard probes list ${model.name} --project ${model.project} --step ${at}`} path={path} />
    </>
  )
}

function Steps(props: {
  readonly model: Model
  readonly at: number
  readonly from: number
  readonly isBefore: boolean
}): JSX.Element {
  const { model, at, from, isBefore } = props
  const chosen = isBefore ? 'before' : String(from)
  return (
    <div class="row options steps-row">
      <label class="row slide">
        Step
        <input
          type="range"
          min={1}
          max={model.step}
          value={at}
          aria-valuetext={`step ${at} of ${model.step}`}
          onInput={(event) => setQuery({ at: event.currentTarget.value })}
        />
        <output>
          {at} of {model.step}
        </output>
      </label>
      <label>
        Beside{' '}
        <select
          aria-label="Beside"
          value={chosen}
          onChange={(event) => setQuery({ from: event.currentTarget.value === '0' ? null : event.currentTarget.value })}
        >
          <option value="0">the base model</option>
          <option value="before">the step before</option>
          {!isBefore && from !== 0 && <option value={from}>step {from}</option>}
        </select>
      </label>
      {from !== at && !isBefore && (
        <button type="button" onClick={() => setQuery({ from: String(at) })} disabled={at === 0}>
          Keep step {at} beside
        </button>
      )}
    </div>
  )
}

function Card(props: {
  readonly probe: Probe
  readonly base: string
  readonly from: number
  readonly at: number
  readonly onChange: () => void
}): JSX.Element {
  const { probe, base, from, at, onChange } = props
  const [isDeleting, setIsDeleting] = useState(false)
  const [isOpen, setIsOpen] = useState(false)
  const missing = missingScope('write')
  const path = `${base}/${encodeURIComponent(probe.id)}`
  const answerAt = (step: number) => probe.answers.find((answer) => answer.step === step)
  const asked = probe.messages.at(-1)?.content ?? ''
  const askFor = async (step: number): Promise<void> => {
    await ask(`${path}/answers`, { json: { steps: [step] } })
    onChange()
  }
  return (
    <li class="card probe">
      <Asked messages={probe.messages} />
      <div class="two">
        {from !== at && <AnswerOf step={from} answer={answerAt(from)} beside={null} onAsk={askFor} />}
        <AnswerOf
          step={at}
          answer={answerAt(at)}
          beside={from === at ? null : (answerAt(from)?.text ?? null)}
          onAsk={askFor}
        />
      </div>
      <div class="row foot">
        <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
          <summary>All steps</summary>
          {isOpen && <History path={`${path}/answers`} />}
        </details>
        <button
          type="button"
          class="link"
          disabled={missing !== null}
          title={missing ?? undefined}
          aria-label={`Delete the prompt ${asked.slice(0, 40)}`}
          onClick={() => setIsDeleting(true)}
        >
          Delete…
        </button>
      </div>
      {isDeleting && (
        <Confirm
          title="Watch this prompt no longer?"
          deed="Delete the prompt"
          run={async () => {
            await ask(path, { method: 'DELETE' })
            onChange()
          }}
          onClose={() => setIsDeleting(false)}
        >
          <p class="raw">{asked.slice(0, 400)}</p>
          <p>Its answers, {nameOfStep(0)} included, are forgotten.</p>
        </Confirm>
      )}
    </li>
  )
}
