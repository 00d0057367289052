/**
 * `/ui/settings`: state of the server, base models, keys, webhooks, usage.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { KEY_SCOPES, type KeyScope } from '#contract/wire/access/key-words.js'
import type { ApiKey, CreatedKey } from '#contract/wire/access/keys.js'
import type { SystemCheckResponse } from '#contract/wire/health.js'
import type { List } from '#contract/wire/list.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatAgo } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { identity, missingScope } from '../data/session.js'
import { wordsOf } from '../data/words.js'
import { Block, Command } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { Title } from '../parts/layout.js'
import { Rest } from '../parts/rest.js'
import { BaseModels } from '../parts/settings/base-models.js'
import { Usage } from '../parts/settings/usage.js'
import { Webhooks } from '../parts/settings/webhooks.js'

export function SettingsPage(): JSX.Element {
  return (
    <>
      <Title text="Settings" />
      <Server />
      <BaseModels />
      <Keys />
      <Webhooks />
      <Usage />
    </>
  )
}

function Server(): JSX.Element {
  const check = useLoad('check', (signal) => ask<SystemCheckResponse>('/v1/system-check', { signal }))
  return (
    <section class="card" aria-labelledby="server">
      <h2 id="server">Server</h2>
      <Block of={check} height="10rem">
        {({ checks = [] }) => (
          <ul class="plain">
            {checks.map((part) => (
              <li key={part.name}>
                <span class={`status ${part.success ? 'completed' : 'failed'}`}>{wordsOf(part.name)}</span>{' '}
                <span class={part.success ? 'soft' : 'wrong'}>
                  {part.success ? part.message : part.errors.join(' ')}
                </span>
                {part.warnings?.map((warning) => (
                  <p key={warning}>{warning}</p>
                ))}
              </li>
            ))}
          </ul>
        )}
      </Block>
    </section>
  )
}

function Keys(): JSX.Element {
  const missing = missingScope('admin')
  return (
    <section class="card" aria-labelledby="keys">
      <h2 id="keys">API keys</h2>
      {identity.value === null ? null : missing === null ? <KeyList /> : <p class="soft">Keys: {missing}.</p>}
    </section>
  )
}

function KeyList(): JSX.Element {
  const keys = useLoad('keys', (signal) => ask<List<ApiKey>>('/v1/preview/keys?limit=100', { signal }))
  const [revoking, setRevoking] = useState<ApiKey | null>(null)
  const at = nowMs()
  return (
    <>
      <Block of={keys} height="6rem">
        {(list) => (
          <div class="table">
            <table class="stacked">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Begins with</th>
                  <th scope="col">Scope</th>
                  <th scope="col">Project</th>
                  <th scope="col">Last used</th>
                  <th scope="col">
                    <span class="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.data.map((key) => (
                  <tr key={key.id}>
                    <th scope="row" class="name">
                      {key.name === '' ? <span class="soft">no name</span> : key.name}
                    </th>
                    <td data-label="Begins with">
                      <code>{key.key_prefix}</code>
                    </td>
                    <td data-label="Scope">{key.scope}</td>
                    <td data-label="Project">{key.project ?? 'all'}</td>
                    <td data-label="Last used">{formatAgo(key.last_used_at, at)}</td>
                    <td>
                      <button
                        type="button"
                        class="link"
                        disabled={key.is_current}
                        title={key.is_current ? 'the key you are signed in with' : undefined}
                        onClick={() => setRevoking(key)}
                      >
                        Revoke
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Block>
      <Rest of={keys.data} elsewhere="trainyard keys list --all" />
      <CreateKey onMade={keys.reload} />
      {revoking !== null && (
        <Confirm
          title={`Revoke the key ${revoking.name || revoking.key_prefix}?`}
          deed="Revoke the key"
          onClose={() => setRevoking(null)}
          run={async () => {
            await ask(`/v1/preview/keys/${encodeURIComponent(revoking.id)}`, { method: 'DELETE' })
            keys.reload()
          }}
        >
          <p>Programs that use it are refused from then on.</p>
        </Confirm>
      )}
    </>
  )
}

function CreateKey({ onMade }: { readonly onMade: () => void }): JSX.Element {
  const [name, setName] = useState('')
  const [scope, setScope] = useState<KeyScope>('read')
  const [made, setMade] = useState<string | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  async function create(event: Event): Promise<void> {
    event.preventDefault()
    setError(null)
    try {
      setMade((await ask<CreatedKey>('/v1/preview/keys', { json: { name, scope } })).key)
      setName('')
      onMade()
    } catch (raw) {
      setError(toApiError(raw))
    }
  }
  return (
    <form class="stack" onSubmit={(event) => void create(event)}>
      <div class="row">
        <label class="row">
          Name <input value={name} maxLength={256} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label class="row">
          Scope
          <select value={scope} onChange={(event) => setScope(event.currentTarget.value as KeyScope)}>
            {KEY_SCOPES.map((word) => (
              <option key={word}>{word}</option>
            ))}
          </select>
        </label>
        <button type="submit">Create a key</button>
      </div>
      {made !== null && (
        <div class="stack" role="status">
          <p>Shown once, and never again:</p>
          <Command text={made} />
        </div>
      )}
      {error !== null && (
        <p class="wrong" role="alert">
          {error.message}
        </p>
      )}
    </form>
  )
}
