/**
 * What somebody wrote about a model: a description and tags, and the form that changes them; and its end.
 */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ListedModel } from '#contract/wire/models.js'
import { go } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { formatBytes, plural } from '../data/format.js'
import { missingScope } from '../data/session.js'
import { Failure } from './block.js'
import { Confirm } from './confirm.js'

export function ModelNote(props: { readonly model: ListedModel; readonly onChange: () => void }): JSX.Element {
  const { model, onChange } = props
  const { description = '', tags = [] } = model.summary ?? {}
  const [isOpen, setIsOpen] = useState(false)
  const missing = missingScope('write')
  const isEmpty = description === '' && tags.length === 0
  return (
    <div class="row note-of-model">
      {tags.map((tag) => (
        <span key={tag} class="tag">
          {tag}
        </span>
      ))}
      {description !== '' && <span class="soft">{description}</span>}
      <button
        type="button"
        class="link small"
        disabled={missing !== null}
        title={missing ?? undefined}
        onClick={() => setIsOpen(true)}
      >
        {isEmpty ? 'Describe and tag it…' : 'Change the note…'}
      </button>
      <DeleteModel model={model} />
      {isOpen && <Form model={model} onChange={onChange} onClose={() => setIsOpen(false)} />}
    </div>
  )
}

function DeleteModel({ model }: { readonly model: ListedModel }): JSX.Element {
  const [isAsking, setIsAsking] = useState(false)
  const missing = missingScope('write')
  return (
    <>
      <button
        type="button"
        class="link small"
        disabled={missing !== null}
        title={missing ?? undefined}
        onClick={() => setIsAsking(true)}
      >
        Remove the model…
      </button>
      {isAsking && (
        <Confirm
          title={`Delete ${model.name}?`}
          deed="Delete the model"
          onClose={() => setIsAsking(false)}
          run={async () => {
            await ask(`/v1/preview/models/${encodeURIComponent(model.id)}`, { method: 'DELETE' })
            go('/')
          }}
        >
          <p>
            {plural(model.summary?.checkpoints ?? 0, 'checkpoint')}, {formatBytes(model.summary?.size_bytes)}, its
            curves, and what was written, marked and watched of it go. Jobs of it that run or wait are cancelled.
          </p>
        </Confirm>
      )}
    </>
  )
}

function Form(props: {
  readonly model: ListedModel
  readonly onChange: () => void
  readonly onClose: () => void
}): JSX.Element {
  const { model } = props
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  useEffect(() => dialog.current?.showModal(), [])
  async function save(form: HTMLFormElement): Promise<void> {
    const data = new FormData(form)
    const tags = String(data.get('tags') ?? '')
      .split(',')
      .map((tag) => tag.trim())
      .filter((tag) => tag !== '')
    setIsBusy(true)
    setError(null)
    try {
      const json = { description: String(data.get('description') ?? ''), tags }
      await ask(`/v1/preview/models/${encodeURIComponent(model.id)}/note`, { method: 'PUT', json })
      props.onChange()
      dialog.current?.close()
    } catch (raw) {
      setError(toApiError(raw))
      setIsBusy(false)
    }
  }
  return (
    <dialog ref={dialog} aria-labelledby="note-title" onClose={props.onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          void save(event.currentTarget)
        }}
      >
        <h2 id="note-title">Note on {model.name}</h2>
        <label class="stack">
          Description
          <textarea name="description" rows={4} maxLength={2000} defaultValue={model.summary?.description ?? ''} />
        </label>
        <label class="stack">
          Tags, separated by commas
          <input name="tags" defaultValue={(model.summary?.tags ?? []).join(', ')} />
        </label>
        {error !== null && <Failure error={error} />}
        <p class="row end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Save
          </button>
        </p>
      </form>
    </dialog>
  )
}
