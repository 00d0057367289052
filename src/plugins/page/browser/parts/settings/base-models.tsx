/**
 * Base models of the server: what each is, how far a download is; one more from the hub or a folder of the server, and one less.
 */

import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { List } from '#contract/wire/list.js'
import type { BaseModel } from '#contract/wire/models.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { ask } from '../../data/client.js'
import { formatBytes, formatCount, plural } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { missingScope } from '../../data/session.js'
import { Block, Command, Failure } from '../block.js'
import { Confirm } from '../confirm.js'
import { Prose } from '../prose.js'
import { Rest } from '../rest.js'

const PATH = '/v1/preview/base-models'
const DOWNLOAD_MS = 2000
export function BaseModels(): JSX.Element {
  const [isLoading, setIsLoading] = useState(false)
  const models = useLoad(
    'base models',
    (signal) => ask<List<BaseModel>>('/v1/preview/base-models/details?limit=100', { signal }),
    { topics: ['base_model'], everyMs: isLoading ? DOWNLOAD_MS : null },
  )
  const isDownloading = models.data?.data.some(({ status }) => status === 'downloading') === true
  useEffect(() => setIsLoading(isDownloading), [isDownloading])
  return (
    <section class="card" aria-labelledby="base-models">
      <h2 id="base-models">Base models</h2>
      <Block of={models} height="6rem">
        {(list) => (
          <ul class="plain">
            {list.data.map((model) => (
              <li key={model.id}>
                <strong>{model.name}</strong>{' '}
                <span
                  class={`status ${model.status === 'ready' ? 'completed' : model.status === 'failed' ? 'failed' : 'queued'}`}
                >
                  {model.status}
                </span>
                <p class="soft small">
                  {[
                    model.architecture,
                    model.parameters === null ? null : `${formatCount(model.parameters)} parameters`,
                    model.context_length === null ? null : `context ${formatCount(model.context_length)}`,
                    model.size_bytes === null ? null : formatBytes(model.size_bytes),
                    model.serving_precision === null
                      ? null
                      : `served as ${model.serving_precision}${model.device === 'cpu' || model.device === null ? '' : ` by ${model.device}`}`,
                  ]
                    .filter((fact) => fact !== null)
                    .join(' · ')}
                </p>
                {model.status === 'downloading' && (
                  <progress
                    aria-label={`Download of ${model.name}`}
                    {...(model.total_bytes === null
                      ? {}
                      : { max: model.total_bytes, value: model.downloaded_bytes ?? 0 })}
                  />
                )}
                {model.source !== 'server' && <Remove model={model} onChange={models.reload} />}
                {model.error !== null && <p class="wrong">{model.error}</p>}
                {model.warnings.map((warning) => (
                  <p class="small" key={warning}>
                    <Prose text={warning} />
                  </p>
                ))}
              </li>
            ))}
          </ul>
        )}
      </Block>
      <Rest of={models.data} elsewhere="trainyard base-models list --all" />
      <Add onAdded={models.reload} />
      <Command text="trainyard base-models add --help" />
    </section>
  )
}

/** Names of a base model lie below its path with their slashes. */
function pathOf(name: string): string {
  return `${PATH}/${name.split('/').map(encodeURIComponent).join('/')}`
}

function Remove({ model, onChange }: { readonly model: BaseModel; readonly onChange: () => void }): JSX.Element {
  const [isAsking, setIsAsking] = useState(false)
  const missing = missingScope('admin')
  return (
    <>
      <button
        type="button"
        class="link small"
        disabled={missing !== null}
        title={missing ?? undefined}
        aria-label={`Remove ${model.name}`}
        onClick={() => setIsAsking(true)}
      >
        Remove…
      </button>
      {isAsking && (
        <Confirm
          title={`Remove ${model.name}?`}
          deed="Remove the base model"
          onClose={() => setIsAsking(false)}
          run={async () => {
            await ask(pathOf(model.name), { method: 'DELETE' })
            onChange()
          }}
        >
          <p>
            {model.models === 0 ? 'No model of yours is' : `${plural(model.models, 'model')} of yours may be`} trained
            from it. A base model that some model is trained from stays.
          </p>
        </Confirm>
      )}
    </>
  )
}

/** From where, and the field that says it to the API. */
const SOURCES = {
  hub: { title: 'the hub', placeholder: 'organisation/name' },
  path: { title: 'a folder of the server', placeholder: 'incoming-my-model' },
} as const

function Add({ onAdded }: { readonly onAdded: () => void }): JSX.Element {
  const [source, setSource] = useState<keyof typeof SOURCES>('hub')
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const missing = missingScope('admin')
  async function add(form: HTMLFormElement): Promise<void> {
    const data = new FormData(form)
    const text = (name: string): string => String(data.get(name) ?? '').trim()
    setIsBusy(true)
    setError(null)
    try {
      const name = text('name') === '' ? {} : { name: text('name') }
      await ask(PATH, { json: { [source]: text('from'), ...name } })
      form.reset()
      onAdded()
    } catch (raw) {
      setError(toApiError(raw))
    } finally {
      setIsBusy(false)
    }
  }
  return (
    <form
      class="row filters"
      aria-label="Add a base model"
      onSubmit={(event) => {
        event.preventDefault()
        void add(event.currentTarget)
      }}
    >
      <label>
        Add from
        <select value={source} onChange={(event) => setSource(event.currentTarget.value === 'path' ? 'path' : 'hub')}>
          {Object.entries(SOURCES).map(([value, { title }]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <label>
        {source === 'hub' ? 'Repository' : 'Folder'}
        <input name="from" required spellcheck={false} placeholder={SOURCES[source].placeholder} />
      </label>
      <label>
        Called
        <input name="name" required={source === 'path'} spellcheck={false} placeholder="as on the hub" />
      </label>
      <button type="submit" disabled={missing !== null || isBusy} title={missing ?? undefined}>
        Add
      </button>
      {source === 'path' && (
        <p class="soft small">It lies in the data directory as base-models/incoming-…; its name alone is given.</p>
      )}
      {error !== null && <Failure error={error} />}
    </form>
  )
}
