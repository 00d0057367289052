/**
 * `/ui/data`: files with rows to train on: added, looked into, what is wrong with them by line, trained on, deleted.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { FileObject } from '#contract/wire/files.js'
import type { List } from '#contract/wire/list.js'
import { hrefOf, query, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { type FileRow, readFirstRows } from '../data/file-rows.js'
import { formatAgo, formatBytes, formatCount, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { missingScope } from '../data/session.js'
import { wordsOf } from '../data/words.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { Title } from '../parts/layout.js'
import { Prose } from '../parts/prose.js'
import { Rest } from '../parts/rest.js'

const MOST_FILES = 200
const PATH = `/v1/files?limit=${MOST_FILES}`

export function DataPage(): JSX.Element {
  const files = useLoad(PATH, (signal) => ask<List<FileObject>>(PATH, { signal }))
  const shown = files.data?.data.find(({ id }) => id === query.value.get('file'))
  return (
    <>
      <Title text="Data" />
      <Add
        onAdded={({ id }) => {
          files.reload()
          setQuery({ file: id })
        }}
      />
      <Block of={files} height="16rem">
        {({ data }) =>
          data.length === 0 ? (
            <Empty command="trainyard train sft my-model --file rows.jsonl">
              No file yet: conversations as JSON Lines are what a model learns from.
            </Empty>
          ) : (
            <Files files={data} />
          )
        }
      </Block>
      <Rest of={files.data} elsewhere="GET /v1/files lists all" />
      {shown !== undefined && <Looked key={shown.id} file={shown} onDeleted={files.reload} />}
      <CopyAs cli={command`trainyard train sft my-model --file rows.jsonl`} path="/v1/files" />
    </>
  )
}

function Add({ onAdded }: { readonly onAdded: (file: FileObject) => void }): JSX.Element {
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const missing = missingScope('write')
  async function add(file: File | undefined): Promise<void> {
    if (file === undefined) return
    setError(null)
    setIsBusy(true)
    try {
      const path = `/v1/files?purpose=fine-tune&filename=${encodeURIComponent(file.name)}`
      const headers = { 'content-type': 'application/octet-stream' }
      onAdded(await ask<FileObject>(path, { body: file, method: 'POST', headers }))
    } catch (raw) {
      setError(toApiError(raw))
    } finally {
      setIsBusy(false)
    }
  }
  return (
    <>
      <label
        class="drop"
        aria-busy={isBusy}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault()
          if (missing === null) void add(event.dataTransfer?.files[0])
        }}
      >
        <input
          type="file"
          disabled={missing !== null || isBusy}
          accept=".jsonl,.json,.ndjson,.txt"
          onChange={(event) => {
            void add(event.currentTarget.files?.[0])
            event.currentTarget.value = ''
          }}
        />
        <span>
          <strong>{isBusy ? 'Uploading…' : 'Add a file'}</strong>{' '}
          <span class="soft">{missing ?? 'or drop it here'}</span>
        </span>
      </label>
      {error !== null && <Failure error={error} />}
    </>
  )
}

function Files({ files }: { readonly files: readonly FileObject[] }): JSX.Element {
  const at = nowMs()
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col">Rows</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">Added</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.id}>
              <th scope="row" class="name">
                <a href={hrefOf(`/data?file=${encodeURIComponent(file.id)}`)}>{withoutTurns(file.filename)}</a>
              </th>
              <td data-label="Rows">
                {file.status === 'error' ? (
                  <>
                    <span class="status failed">cannot be trained on:</span>{' '}
                    <span class="small">
                      <Prose text={withoutTurns(file.status_details ?? '')} />
                    </span>
                  </>
                ) : (
                  <span class="soft">{file.purpose === 'fine-tune' ? 'can be trained on' : wordsOf(file.purpose)}</span>
                )}
              </td>
              <td data-label="Size" class="number">
                {formatBytes(file.bytes)}
              </td>
              <td data-label="Added" class="nowrap">
                {formatAgo(new Date(file.created_at * 1000).toISOString(), at)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Looked({ file, onDeleted }: { readonly file: FileObject; readonly onDeleted: () => void }): JSX.Element {
  const rows = useLoad(`rows of ${file.id}`, (signal) =>
    readFirstRows(`/v1/files/${encodeURIComponent(file.id)}/content`, signal),
  )
  const [isDeleting, setIsDeleting] = useState(false)
  const missing = missingScope('write')
  return (
    <section class="card stack" aria-labelledby="looked">
      <div class="row">
        <h2 id="looked">{withoutTurns(file.filename)}</h2>
        <span class="push" />
        <a class="button" href={hrefOf(`/train?kind=sft&file=${encodeURIComponent(file.id)}`)}>
          Plan a job: tokens, and what trains
        </a>
        <button
          type="button"
          class="danger"
          disabled={missing !== null}
          title={missing ?? undefined}
          onClick={() => setIsDeleting(true)}
        >
          Delete…
        </button>
      </div>
      <p class="soft small">
        <code>{file.id}</code>
        {file.artifact !== null && ` · ${file.artifact}`}
      </p>
      {file.status_details !== null && (
        <p class="wrong" role="status">
          <Prose text={file.status_details} />
        </p>
      )}
      <Block of={rows} height="12rem">
        {(found) => (
          <>
            <ol class="plain stack rows-of-file">
              {found.rows.map((row) => (
                <Row key={row.line} row={row} />
              ))}
            </ol>
            {!found.isWhole && <p class="soft">The first {formatCount(found.rows.length)} rows; there are more.</p>}
          </>
        )}
      </Block>
      {isDeleting && (
        <Confirm
          title={`Delete ${withoutTurns(file.filename)}?`}
          deed="Delete the file"
          onClose={() => setIsDeleting(false)}
          run={async () => {
            await ask(`/v1/files/${encodeURIComponent(file.id)}`, { method: 'DELETE' })
            setQuery({ file: null })
            onDeleted()
          }}
        >
          <p>{formatBytes(file.bytes)}. Jobs that were started with it keep their rows.</p>
        </Confirm>
      )}
    </section>
  )
}

function Row({ row: { line, value, text } }: { readonly row: FileRow }): JSX.Element {
  const messages = Array.isArray(value?.['messages']) ? (value['messages'] as readonly unknown[]) : null
  return (
    <li class="side stack">
      <p class="soft small">line {line}</p>
      {value === null && <p class="wrong">This line is no JSON object.</p>}
      {messages === null ? (
        <p class="raw">{withoutTurns(text.slice(0, 2000))}</p>
      ) : (
        messages.map((message, i) => {
          const { role, content } = (message ?? {}) as { readonly role?: unknown; readonly content?: unknown }
          return (
            <p key={i} class="raw">
              <span class="soft small">{String(role ?? 'message')} </span>
              {withoutTurns(typeof content === 'string' ? content : JSON.stringify(message))}
            </p>
          )
        })
      )}
    </li>
  )
}
