/**
 * `/ui/sign-in`: an API key for a session. The question to somebody who is signed in and opens an address that signs in as another.
 */

import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { go, query } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { answerOffer, offeredSession, signIn } from '../data/sign-in.js'
import { Command } from '../parts/block.js'
import { Confirm } from '../parts/confirm.js'
import { Title } from '../parts/layout.js'

/** Why the code of the address did not sign in; null where there was none. */
export const codeProblem = signal<string | null>(null)

export function SignInPage(): JSX.Element {
  const [key, setKey] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [isKept, setIsKept] = useState(false)
  const [isBusy, setIsBusy] = useState(false)

  async function submit(event: Event): Promise<void> {
    event.preventDefault()
    if (key.trim() === '' || isBusy) return
    setIsBusy(true)
    setError(null)
    try {
      await signIn(key.trim(), isKept)
      const back = query.value.get('back')
      go(back?.startsWith('/') === true && !back.startsWith('/sign-in') ? back : '/', { replaces: true })
    } catch (raw) {
      setError(toApiError(raw))
    }
    setIsBusy(false)
  }

  const isRefused = error !== null
  return (
    <div class="narrow">
      <Title text="Sign in" />
      {codeProblem.value !== null && (
        <p class="failure" role="alert">
          {codeProblem.value}
        </p>
      )}
      <form class="card stack" onSubmit={(event) => void submit(event)}>
        <label class="field">
          API key
          <input
            type="password"
            name="key"
            autoComplete="off"
            spellcheck={false}
            value={key}
            aria-invalid={isRefused}
            aria-describedby={isRefused ? 'key-error' : undefined}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        {error !== null && (
          <p id="key-error" class="wrong" role="alert">
            {error.status === 401 ? 'This key is not valid here.' : error.message}
          </p>
        )}
        <label class="row">
          <input type="checkbox" checked={isKept} onChange={(event) => setIsKept(event.currentTarget.checked)} />
          Keep me signed in on this browser
        </label>
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
      <div class="stack soft">
        <p>On the machine of the server, this opens the page signed in:</p>
        <Command text="trainyard ui" />
        <p>Or make a key to type here:</p>
        <Command text="trainyard keys create" />
      </div>
    </div>
  )
}

/** Nothing where no address offers a session. */
export function OtherSession(): JSX.Element | null {
  const question = offeredSession.value
  if (question === null) return null
  const { offered, own } = question
  return (
    <Confirm
      title="Sign in as somebody else?"
      deed={`Sign in for ${offered.entity}`}
      run={() => answerOffer(true)}
      onClose={() => void answerOffer(false)}
    >
      <p>
        The address that was opened signs in with another key: of <strong>{whose(offered)}</strong>, which may{' '}
        {offered.scope}. You are signed in for <strong>{whose(own)}</strong> with key {own.key_prefix}…
      </p>
      <p>
        What you write and upload goes to whoever you are signed in for. If you did not ask for this address, keep
        yours.
      </p>
    </Confirm>
  )
}

const whose = ({
  entity,
  project,
}: {
  readonly entity: string
  readonly project?: string | null | undefined
}): string => (project == null ? entity : `${entity}/${project}`)
