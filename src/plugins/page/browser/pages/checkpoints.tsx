/**
 * `/ui/models/:project/:name/checkpoints`: what is kept of a model, how large it is, and what may go.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type {
  Checkpoint,
  CheckpointFiles,
  DeleteCheckpointsResponse,
  KeepRuleView,
} from '#contract/wire/checkpoints.js'
import { command } from '#contract/wire/command-words.js'
import { EXPORT_FORMATS, type ExportFormat } from '#contract/wire/export-words.js'
import type { Model } from '#contract/wire/models.js'
import { hrefOf, route } from '../data/address.js'
import { toApiError } from '../data/api-error.js'
import { ask, askAll } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { saveFile } from '../data/download.js'
import { formatAgo, formatBytes, formatNumber, plural } from '../data/format.js'
import { type Loaded, useLoad } from '../data/load.js'
import { missingScope } from '../data/session.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { ModelHeader, useModel } from '../parts/model-header.js'

/** Rows that are drawn at first; all are known. */
const ROWS = 100

interface Found {
  readonly model: Model
  readonly checkpoints: readonly Checkpoint[]
  readonly keeps: KeepRuleView
}

export function CheckpointsPage(): JSX.Element {
  const { project = '', name = '' } = route.value.params
  const owner = useModel(project, name)
  const model = owner.data
  const found = useLoad(model === null ? null : `checkpoints of ${model.id}`, async (signal): Promise<Found> => {
    if (model === null) throw new Error('there is no model yet')
    const path = `/v1/preview/models/${encodeURIComponent(model.id)}`
    const [{ data: checkpoints }, keeps] = await Promise.all([
      askAll<Checkpoint>(`${path}/checkpoints?order=desc`, { signal, most: 10_000 }),
      ask<KeepRuleView>(`${path}/keep-rule`, { signal }),
    ])
    return { model, checkpoints, keeps }
  })
  return (
    <>
      <ModelHeader project={project} name={name} tab="Checkpoints" />
      {owner.error !== null && <Failure error={owner.error} onRetry={owner.reload} />}
      {(model !== null || owner.error === null) && (
        <Block of={found} height="16rem">
          {(data) =>
            data.checkpoints.length === 0 ? (
              <Empty command={command`trainyard train rl ${name} --help`}>
                No checkpoint yet: each training job makes one.
              </Empty>
            ) : (
              <List {...data} reload={found.reload} />
            )
          }
        </Block>
      )}
    </>
  )
}

function List({
  model,
  checkpoints,
  keeps,
  reload,
}: Found & { readonly reload: Loaded<Found>['reload'] }): JSX.Element {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set())
  const [isAsking, setIsAsking] = useState(false)
  const [said, setSaid] = useState('')
  const [opened, setOpened] = useState<number | null>(null)
  const [count, setCount] = useState(ROWS)
  const steps = checkpoints.map(({ step }) => step).filter((step) => chosen.has(step))
  const bytes = checkpoints.reduce((sum, { size_bytes: size }) => sum + size, 0)
  const missing = missingScope('write')
  const toggle = (step: number): void => {
    const next = new Set(chosen)
    if (!next.delete(step)) next.add(step)
    setChosen(next)
  }
  return (
    <>
      <p class="soft">
        {plural(checkpoints.length, 'checkpoint')}, {formatBytes(bytes)}. Kept: {keeps.rule ?? keeps.server_rule}
        {keeps.drops.length > 0 && `, so ${plural(keeps.drops.length, 'step')} will go`}; the optimizer’s state of the
        newest {keeps.keep_optimizers}
      </p>
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">Choose</span>
              </th>
              <th scope="col">Step</th>
              <th scope="col" class="number">
                Reward
              </th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Made</th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {checkpoints.slice(0, count).map((checkpoint) => (
              <Row
                key={checkpoint.step}
                {...{ model, checkpoint }}
                isChosen={chosen.has(checkpoint.step)}
                isOpen={opened === checkpoint.step}
                onChoose={toggle}
                onOpen={setOpened}
              />
            ))}
          </tbody>
        </table>
      </div>
      {checkpoints.length > count && (
        <p>
          <button type="button" onClick={() => setCount(count + 4 * ROWS)}>
            {plural(checkpoints.length - count, 'checkpoint')} more
          </button>
        </p>
      )}
      <p role="status">{said}</p>
      {steps.length > 0 && (
        <p class="row chosen">
          {plural(steps.length, 'step')} chosen
          <button
            type="button"
            class="danger"
            disabled={missing !== null}
            title={missing ?? undefined}
            onClick={() => setIsAsking(true)}
          >
            Delete
          </button>
        </p>
      )}
      {isAsking && (
        <Confirm
          title={`Delete ${plural(steps.length, 'checkpoint')} of ${model.name}?`}
          deed={`Delete ${plural(steps.length, 'checkpoint')}`}
          onClose={() => setIsAsking(false)}
          run={async () => {
            const path = `/v1/preview/models/${encodeURIComponent(model.id)}/checkpoints`
            const done = await ask<DeleteCheckpointsResponse>(path, { method: 'DELETE', json: { steps } })
            const used = done.in_use_steps ?? []
            const kept = used.length === 0 ? '' : ` A running job trains from step ${used.join(', ')}: it stays.`
            setSaid(`${plural(done.deleted_count, 'checkpoint')} deleted.${kept}`)
            setChosen(new Set())
            reload()
          }}
        >
          <p>Their weights are lost for good: step {steps.join(', ')}.</p>
        </Confirm>
      )}
      <CopyAs
        cli={command`trainyard checkpoints list ${model.name} --project ${model.project}`}
        path={`/v1/preview/models/${model.id}/checkpoints`}
      />
    </>
  )
}

function Row(props: {
  readonly model: Model
  readonly checkpoint: Checkpoint
  readonly isChosen: boolean
  /** Whether its files are shown. */
  readonly isOpen: boolean
  readonly onChoose: (step: number) => void
  readonly onOpen: (step: number | null) => void
}): JSX.Element {
  const { model, checkpoint, isOpen } = props
  const { step, metrics, size_bytes: size, created_at: made } = checkpoint
  return (
    <tr>
      <td class="choice">
        <input
          type="checkbox"
          aria-label={`Choose step ${step}`}
          checked={props.isChosen}
          onChange={() => props.onChoose(step)}
        />
      </td>
      <th scope="row" class="name">
        {step}
      </th>
      <td data-label="Reward" class="number">
        {formatNumber(metrics['train/reward'])}
      </td>
      <td data-label="Size" class="number">
        {formatBytes(size)}
      </td>
      <td data-label="Made">{formatAgo(made, nowMs())}</td>
      <td>
        <span class="row">
          <a href={hrefOf(`/play?m=${encodeURIComponent(`${model.project}/${model.name}:step${step}`)}`)}>Play</a>
          <button type="button" class="link" aria-expanded={isOpen} onClick={() => props.onOpen(isOpen ? null : step)}>
            Download
          </button>
        </span>
        {isOpen && <Downloads model={model} step={step} />}
      </td>
    </tr>
  )
}

/** The files of a checkpoint in a form. */
function Downloads({ model, step }: { readonly model: Model; readonly step: number }): JSX.Element {
  const [format, setFormat] = useState<ExportFormat>('peft')
  const [busy, setBusy] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const base = `/v1/preview/models/${encodeURIComponent(model.id)}/checkpoints/${step}/files`
  const files = useLoad(`${base}?format=${format}`, (signal) =>
    ask<CheckpointFiles>(`${base}?format=${format}`, { signal }),
  )
  async function save(name: string): Promise<void> {
    setBusy(name)
    setProblem(null)
    await saveFile(`${base}/${encodeURIComponent(name)}?format=${format}`, `${model.name}-step${step}-${name}`).catch(
      (raw: unknown) => setProblem(toApiError(raw).message),
    )
    setBusy(null)
  }
  return (
    <div class="stack downloads">
      <label class="row">
        Form
        <select value={format} onChange={(event) => setFormat(event.currentTarget.value as ExportFormat)}>
          {EXPORT_FORMATS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <Block of={files} height="4rem">
        {(list) => (
          <ul class="plain">
            {list.files.map(({ name, size_bytes: size }) => (
              <li key={name}>
                <button type="button" class="link" disabled={busy !== null} onClick={() => void save(name)}>
                  {busy === name ? `${name} …` : name}
                </button>{' '}
                <span class="soft small">{formatBytes(size)}</span>
              </li>
            ))}
          </ul>
        )}
      </Block>
      {problem !== null && (
        <p class="wrong" role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}
