/**
 * `/ui/sessions/:id`: one training session, a client's loop: what it has done, what waits, the model that its checkpoints go to.
 */
import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingSession } from '#contract/wire/training/training-sessions.js'
import { hrefOf, route } from '../data/address.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatAgo, formatCount } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { missingScope } from '../data/session.js'
import { Block } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { CopyAs } from '../parts/copy-as.js'
import { Title } from '../parts/layout.js'

/** Requests of a client are no news. */
const REFRESH_MS = 5000

export function SessionPage(): JSX.Element {
  const { id = '' } = route.value.params
  const path = `/v1/preview/training-sessions/${encodeURIComponent(id)}`
  const session = useLoad(path, (signal) => ask<TrainingSession>(path, { signal }), { everyMs: REFRESH_MS })
  const [isAsking, setIsAsking] = useState(false)
  const missing = missingScope('write')
  const canEnd = session.data !== null && session.data.status !== 'stopped'
  return (
    <>
      <Title text="Training session">
        {canEnd && (
          <p class="actions">
            <button
              type="button"
              class="danger"
              disabled={missing !== null}
              title={missing ?? undefined}
              onClick={() => setIsAsking(true)}
            >
              End
            </button>
          </p>
        )}
      </Title>
      <p class="soft">
        A loop that a client runs: it sends gradients and updates, and saves checkpoints. <code>{id}</code>
      </p>
      <Block of={session} height="12rem">
        {(found) => <Facts session={found} />}
      </Block>
      {isAsking && (
        <Confirm
          title="End this training session?"
          deed="End the session"
          onClose={() => setIsAsking(false)}
          run={async () => {
            await ask(`${path}/end`, { method: 'POST' })
            session.reload()
          }}
        >
          <p>What waits fails, and its client can send nothing more. What it saved stays.</p>
        </Confirm>
      )}
      <CopyAs cli={command`trainyard sessions list`} path={path} />
    </>
  )
}

function Facts({ session }: { readonly session: TrainingSession }): JSX.Element {
  const { model_id: modelId } = session
  const model = useLoad(modelId, (signal) =>
    ask<Model>(`/v1/preview/models/${encodeURIComponent(modelId ?? '')}`, { signal }),
  )
  const at = nowMs()
  const status = { running: 'running', waiting: 'queued', resting: 'queued', stopped: 'cancelled' }[session.status]
  const figures: readonly (readonly [string, ComponentChildren])[] = [
    [
      'Status',
      <span key="status" class={`status ${status}`}>
        {session.status}
      </span>,
    ],
    [
      'Model',
      modelId === null ? (
        'none before the first checkpoint'
      ) : model.data === null ? (
        '…'
      ) : (
        <a key="model" href={hrefOf(modelPath(model.data))}>
          {model.data.name}
        </a>
      ),
    ],
    ['Base model', session.base_model],
    ['Updates', formatCount(session.optimizer_steps)],
    ['Requests', `${formatCount(session.requests)}, ${formatCount(session.waiting_requests)} waiting`],
    ['LoRA rank', formatCount(session.lora_rank)],
    ['Begun', formatAgo(session.created_at, at)],
    ['Last request', formatAgo(session.last_request_at, at)],
  ]
  return (
    <>
      {session.error !== null && (
        <div class="failure" role="alert">
          <p>{session.error}</p>
        </div>
      )}
      <dl class="figures card">
        {figures.map(([title, value]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  )
}
