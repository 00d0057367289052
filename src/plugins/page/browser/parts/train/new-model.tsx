/**
 * A model that is not there yet, made from a base model.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Model } from '#contract/wire/models.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { ask } from '../../data/client.js'
import { useGone, useLoad } from '../../data/load.js'
import { missingScope } from '../../data/session.js'
import { Failure } from '../block.js'

/** What the first model is called, unless somebody has a better name. */
const FIRST = 'my-model'

export function NewModel(props: { readonly name: string; readonly onMade: (model: Model) => void }): JSX.Element {
  const bases = useLoad('base model names', (signal) => ask<readonly string[]>('/v1/preview/base-models', { signal }))
  const [base, setBase] = useState('')
  const [name, setName] = useState<string | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const gone = useGone()
  const missing = missingScope('write')
  const chosen = base === '' ? (bases.data?.[0] ?? '') : base
  const [project = '', short = ''] = props.name.includes('/') ? props.name.split(/\/(.*)/s) : ['default', props.name]
  const wanted = name ?? (short === '' ? FIRST : short)

  async function create(event: Event): Promise<void> {
    event.preventDefault()
    if (isBusy) return
    setIsBusy(true)
    setError(null)
    try {
      const made = await ask<Model>('/v1/preview/models', { json: { project, name: wanted, base_model: chosen } })
      if (gone.aborted) return
      props.onMade(made)
    } catch (raw) {
      if (gone.aborted) return
      setError(toApiError(raw))
    }
    setIsBusy(false)
  }
  return (
    <form class="stack" onSubmit={(event) => void create(event)}>
      <p>
        {props.name === '' ? 'There is no model yet.' : `There is no model ${props.name} yet.`} Make it from a base
        model:
      </p>
      <div class="row">
        <label class="row">
          Name <input value={wanted} required maxLength={128} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label class="row">
          Base model
          <select value={chosen} onChange={(event) => setBase(event.currentTarget.value)}>
            {bases.data?.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <button
          type="submit"
          disabled={isBusy || missing !== null || wanted === '' || chosen === ''}
          title={missing ?? undefined}
        >
          {isBusy ? 'Creating…' : 'Create the model'}
        </button>
      </div>
      {bases.error !== null && <Failure error={bases.error} onRetry={bases.reload} />}
      {error !== null && <Failure error={error} />}
    </form>
  )
}
