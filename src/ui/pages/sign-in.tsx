/**
 * `/ui/sign-in`: an API key for a session.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { go, query } from '../data/address.js'
import type { ApiError } from '../data/client.js'
import { toApiError } from '../data/load.js'
import { signIn } from '../data/sign-in.js'
import { Command } from '../parts/block.js'
import { Title } from '../parts/layout.js'

export function SignInPage(): JSX.Element {
  const [key, setKey] = useState('')
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)

  async function submit(event: Event): Promise<void> {
    event.preventDefault()
    if (key.trim() === '' || isBusy) return
    setIsBusy(true)
    setError(null)
    try {
      await signIn(key.trim(), false)
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
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
      <div class="stack soft">
        <p>The server prints its first key once and keeps it in a file of its data directory. A new one:</p>
        <Command text="trainyard keys create" />
      </div>
    </div>
  )
}
