/**
 * Webhooks: whom the server tells of jobs and checkpoints, and what became of each message.
 */

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { List } from '#contract/wire/list.js'
import { WEBHOOK_EVENTS, type WebhookEvent } from '#contract/wire/webhooks/webhook-words.js'
import type { CreatedWebhook, Webhook, WebhookDelivery } from '#contract/wire/webhooks/webhooks.js'
import { query, setQuery } from '../../data/address.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { ask } from '../../data/client.js'
import { nowMs } from '../../data/clock.js'
import { formatAgo, formatTime, plural } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { missingScope } from '../../data/session.js'
import { Block, Command, Empty } from '../block.js'
import { Confirm } from '../confirm.js'

const PATH = '/v1/preview/webhooks'
const STATUS = { delivered: 'completed', failed: 'failed', pending: 'queued' } as const

export function Webhooks(): JSX.Element {
  const hooks = useLoad('webhooks', (signal) => ask<List<Webhook>>(`${PATH}?limit=100`, { signal }))
  const [deleting, setDeleting] = useState<Webhook | null>(null)
  const missing = missingScope('write')
  const opened = query.value.get('webhook')
  return (
    <section class="card" aria-labelledby="webhooks">
      <h2 id="webhooks">Webhooks</h2>
      <Block of={hooks} height="4rem">
        {(list) =>
          list.data.length === 0 ? (
            <Empty>Nobody is told when a job ends. Add an address that takes a POST.</Empty>
          ) : (
            <ul class="plain">
              {list.data.map((hook) => (
                <li key={hook.id} class="stack">
                  <p class="row">
                    <strong class="url">{hook.url}</strong>
                    <button
                      type="button"
                      class="link"
                      aria-expanded={opened === hook.id}
                      onClick={() => setQuery({ webhook: opened === hook.id ? null : hook.id })}
                    >
                      What was sent
                    </button>
                    <button
                      type="button"
                      class="link"
                      disabled={missing !== null}
                      title={missing ?? undefined}
                      onClick={() => setDeleting(hook)}
                    >
                      Delete
                    </button>
                  </p>
                  <p class="soft small">
                    {hook.events.length === WEBHOOK_EVENTS.length ? 'every event' : hook.events.join(', ')} ·{' '}
                    {hook.project === null ? 'every project' : `project ${hook.project}`} · made{' '}
                    {formatAgo(hook.created_at, nowMs())}
                  </p>
                  {opened === hook.id && <Deliveries hook={hook} />}
                </li>
              ))}
              {list.has_more && <li class="soft">More than 100: `trainyard webhooks list --all` shows the rest.</li>}
            </ul>
          )
        }
      </Block>
      {missing === null ? <AddWebhook onMade={hooks.reload} /> : <p class="soft">Adding one {missing}.</p>}
      <Command text="trainyard webhooks list" />
      {deleting !== null && (
        <Confirm
          title="Delete this webhook?"
          deed="Delete the webhook"
          onClose={() => setDeleting(null)}
          run={async () => {
            await ask(`${PATH}/${encodeURIComponent(deleting.id)}`, { method: 'DELETE' })
            hooks.reload()
          }}
        >
          <p class="url">{deleting.url} is told of nothing from then on.</p>
        </Confirm>
      )}
    </section>
  )
}

function Deliveries({ hook }: { readonly hook: Webhook }): JSX.Element {
  const path = `${PATH}/${encodeURIComponent(hook.id)}/deliveries`
  const sent = useLoad(path, (signal) => ask<List<WebhookDelivery>>(`${path}?limit=50`, { signal }))
  const [problem, setProblem] = useState<ApiError | null>(null)
  const missing = missingScope('write')
  /** @param what below the webhook */
  async function send(what: string): Promise<void> {
    setProblem(null)
    await ask(`${PATH}/${encodeURIComponent(hook.id)}/${what}`, { method: 'POST' }).catch((raw: unknown) =>
      setProblem(toApiError(raw)),
    )
    sent.reload()
  }
  const at = nowMs()
  return (
    <div class="stack">
      <Block of={sent} height="4rem">
        {(list) =>
          list.data.length === 0 ? (
            <Empty>Nothing was sent yet: the next job is told, or a test.</Empty>
          ) : (
            <ul class="plain deliveries" aria-label={`Sent to ${hook.url}`}>
              {list.data.map((delivery) => (
                <li key={delivery.id}>
                  <p class="row">
                    <span class={`status ${STATUS[delivery.status]}`}>{delivery.status}</span>
                    <code>{delivery.type}</code>
                    <span class="soft small">
                      {formatTime(delivery.created_at, at)} · {plural(delivery.attempts, 'attempt')}
                      {delivery.response_status === null ? '' : ` · answered ${delivery.response_status}`}
                      {delivery.next_attempt_at === null ? '' : ` · again ${formatTime(delivery.next_attempt_at, at)}`}
                    </span>
                    <button
                      type="button"
                      class="link"
                      disabled={missing !== null || delivery.status === 'pending'}
                      title={missing ?? (delivery.status === 'pending' ? 'it is still being sent' : undefined)}
                      onClick={() => void send(`deliveries/${encodeURIComponent(delivery.id)}/redeliver`)}
                    >
                      Send again
                    </button>
                  </p>
                  {delivery.error !== null && <p class="wrong small url">{delivery.error}</p>}
                  <details>
                    <summary class="soft small">What is sent</summary>
                    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
                    <section tabIndex={0} aria-label={`Message ${delivery.message_id}`}>
                      <pre class="json">{JSON.stringify(delivery.payload, null, 2)}</pre>
                    </section>
                  </details>
                </li>
              ))}
            </ul>
          )
        }
      </Block>
      <p class="row">
        <button
          type="button"
          disabled={missing !== null}
          title={missing ?? undefined}
          onClick={() => void send('test')}
        >
          Send a test
        </button>
        <button type="button" onClick={sent.reload}>
          Look again
        </button>
        {sent.data?.has_more === true && <span class="soft small">The newest 50.</span>}
      </p>
      {problem !== null && (
        <p class="wrong" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
    </div>
  )
}

function AddWebhook({ onMade }: { readonly onMade: () => void }): JSX.Element {
  const [url, setUrl] = useState('')
  const [project, setProject] = useState('')
  const [events, setEvents] = useState<readonly WebhookEvent[]>(WEBHOOK_EVENTS)
  const [secret, setSecret] = useState<string | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  async function create(event: Event): Promise<void> {
    event.preventDefault()
    setError(null)
    const json = { url: url.trim(), events, ...(project.trim() === '' ? {} : { project: project.trim() }) }
    try {
      setSecret((await ask<CreatedWebhook>(PATH, { json })).secret)
      setUrl('')
      onMade()
    } catch (raw) {
      setError(toApiError(raw))
    }
  }
  return (
    <form class="stack" onSubmit={(event) => void create(event)}>
      <div class="row">
        <label class="row">
          Address
          <input
            type="url"
            value={url}
            maxLength={2048}
            placeholder="https://…"
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        </label>
        <label class="row">
          Project <input value={project} placeholder="all" onInput={(event) => setProject(event.currentTarget.value)} />
        </label>
      </div>
      <fieldset class="events">
        <legend class="soft small">Told of</legend>
        {WEBHOOK_EVENTS.map((name) => (
          <label class="row small" key={name}>
            <input
              type="checkbox"
              checked={events.includes(name)}
              onChange={(event) => {
                const isWanted = event.currentTarget.checked
                setEvents(WEBHOOK_EVENTS.filter((other) => (other === name ? isWanted : events.includes(other))))
              }}
            />
            <code>{name}</code>
          </label>
        ))}
      </fieldset>
      <p class="row">
        <button type="submit" disabled={url.trim() === '' || events.length === 0}>
          Add a webhook
        </button>
      </p>
      {secret !== null && (
        <div class="stack" role="status">
          <p>The secret that messages are signed with, shown once and never again:</p>
          <Command text={secret} />
        </div>
      )}
      {error !== null && (
        <p class="wrong" role="alert">
          {error.message} {error.hint}
        </p>
      )}
    </form>
  )
}
