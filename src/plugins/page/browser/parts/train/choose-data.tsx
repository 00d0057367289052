/**
 * Rows for a job: a file of this machine, chosen or dropped, or one that was uploaded before.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { FileObject } from '#contract/wire/files.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { List } from '#contract/wire/list.js'
import { ask } from '../../data/client.js'
import { formatBytes } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { KINDS } from '../../data/train/kinds.js'
import type { Source } from '../../data/train/request.js'
import { Failure } from '../block.js'
import { Rest } from '../rest.js'

/** Null: nothing yet. */
export type Chosen = Source | null

const MOST_FILES = 50

export function ChooseData(props: {
  readonly kind: JobKind
  readonly chosen: Chosen
  readonly rows: string
  readonly example: string
  readonly onFile: (file: File) => void
  readonly onId: (id: string | null) => void
}): JSX.Element {
  const { kind, chosen, onFile, onId } = props
  const [isOver, setIsOver] = useState(false)
  const takesUploads = KINDS[kind].data === 'rows'
  const files = useLoad(takesUploads ? 'files' : null, (signal) =>
    ask<List<FileObject>>(`/v1/files?purpose=fine-tune&limit=${MOST_FILES}`, { signal }),
  )
  const uploaded = files.data?.data ?? []
  const id = chosen !== null && 'id' in chosen ? chosen.id : null
  const take = (list: FileList | null | undefined): void => {
    const file = list?.[0]
    if (file !== undefined) onFile(file)
  }
  return (
    <>
      <label
        class={isOver ? 'drop over' : 'drop'}
        onDragOver={(event) => {
          event.preventDefault()
          setIsOver(true)
        }}
        onDragLeave={() => setIsOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          setIsOver(false)
          take(event.dataTransfer?.files)
        }}
      >
        <input
          type="file"
          accept=".jsonl,.json,.ndjson,.txt"
          onChange={(event) => {
            take(event.currentTarget.files)
            // so that the same file, changed, can be chosen again
            event.currentTarget.value = ''
          }}
        />
        <span>
          {chosen !== null && 'file' in chosen ? (
            <>
              <strong>{chosen.file.name}</strong>{' '}
              <span class="soft">{formatBytes(chosen.file.size)}; choose another</span>
            </>
          ) : (
            <>
              <strong>Choose a file</strong> <span class="soft">or drop it here</span>
            </>
          )}
        </span>
        <span class="soft small">{props.rows}</span>
        <code class="small">{props.example}</code>
      </label>
      {files.error !== null && <Failure error={files.error} onRetry={files.reload} />}
      {takesUploads && (uploaded.length > 0 || id !== null) && (
        <label class="row">
          or one that is on the server
          <select value={id ?? ''} onChange={(event) => onId(event.currentTarget.value || null)}>
            <option value="">none</option>
            {id !== null && !uploaded.some((file) => file.id === id) && <option value={id}>{id}</option>}
            {uploaded.map((file) => (
              <option key={file.id} value={file.id} disabled={file.status === 'error'}>
                {file.filename} · {formatBytes(file.bytes)}
                {file.status === 'error' ? ' · cannot be trained on' : ''}
              </option>
            ))}
          </select>
        </label>
      )}
      <Rest of={files.data} elsewhere="trainyard train sft --data-url takes the id of any" />
    </>
  )
}
