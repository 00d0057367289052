/**
 * The page: which of its parts an address shows. A client of the public API like any other.
 */

import type { ComponentType, JSX } from 'preact'
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { followLinks, go, here, hrefOf, path, route, views } from './data/address.js'
import { toApiError } from './data/api-error.js'
import { followActivity } from './data/live.js'
import { credential } from './data/session.js'
import { identify, signInByCode } from './data/sign-in.js'
import type { View } from './data/view.js'
import { codeProblem, OtherSession } from './pages/sign-in.js'
import { Layout, Title } from './parts/layout.js'
import { applyTheme, watchSystemTheme } from './parts/theme.js'
import { listViews, SIGN_IN } from './views.js'

type Page = ComponentType
/** Before who is signed in is asked again. */
const RETRY_MS = 3000
/** A skeleton that comes and goes within this time is only a flicker. */
const SLOW_MS = 200
function App(): JSX.Element {
  const { view } = route.value
  const isSignedIn = credential.value !== null
  useEffect(() => {
    if (!isSignedIn && view !== SIGN_IN) go(`/sign-in?back=${encodeURIComponent(here.peek())}`, { replaces: true })
  }, [isSignedIn, view])
  useEffect(() => {
    if (!isSignedIn) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const learn = (): void => {
      identify().catch((raw: unknown) => {
        // a credential that is not valid shows at the first block, which says more
        if (toApiError(raw).status !== 401) timer = setTimeout(learn, RETRY_MS)
      })
    }
    learn()
    return () => clearTimeout(timer)
  }, [isSignedIn])
  return (
    <Layout>
      {(isSignedIn || view === SIGN_IN) && (view === null ? <Nowhere /> : <Shown view={view} />)}
      <OtherSession />
    </Layout>
  )
}

/** Views that were asked for, each once. */
const asked = new Map<View, Promise<Page>>()

function askFor(view: View): Promise<Page> | undefined {
  if (typeof view.load !== 'function') return undefined
  const known = asked.get(view) ?? view.load()
  asked.set(view, known)
  return known
}

function Shown({ view }: { readonly view: View }): JSX.Element {
  const [loaded, setLoaded] = useState<ReadonlyMap<View, Page>>(new Map())
  const [failed, setFailed] = useState<View | null>(null)
  const [isSlow, setIsSlow] = useState(false)
  const Component = typeof view.load === 'function' ? loaded.get(view) : view.load.component
  useEffect(() => {
    if (Component !== undefined) return
    const slow = setTimeout(() => setIsSlow(true), SLOW_MS)
    askFor(view)
      ?.then(
        (component) => setLoaded((all) => new Map(all).set(view, component)),
        () => setFailed(view),
      )
      .finally(() => {
        clearTimeout(slow)
        setIsSlow(false)
      })
  }, [view])
  // another thing is another page: nothing of one is shown as the other's
  if (Component !== undefined) return <Component key={path.value} />
  if (failed === view) return <NotLoaded />
  return <div class={isSlow ? 'skeleton whole' : 'whole'} aria-busy="true" />
}

/** A script did not come: the server is down, or has other scripts now. */
function NotLoaded(): JSX.Element {
  return (
    <>
      <Title text="This part of the page did not load" />
      <div class="failure" role="alert">
        <p>The server does not answer, or it is of another version now.</p>
        <p>
          <button type="button" onClick={() => location.reload()}>
            Load again
          </button>
        </p>
      </div>
    </>
  )
}

function Nowhere(): JSX.Element {
  return (
    <>
      <Title text="Nothing here" />
      <p>
        This address shows nothing. <a href={hrefOf('/')}>All models</a>
      </p>
    </>
  )
}

const root = document.getElementById('app')
if (root !== null) {
  views.value = listViews()
  const first = route.peek().view
  // at once, so that it comes while who is signed in is asked; a failure shows where the page does
  if (first !== null) askFor(first)?.catch(() => undefined)
  applyTheme()
  watchSystemTheme()
  followLinks()
  followActivity()
  root.replaceChildren()
  await signInByCode().catch((error: unknown) => {
    codeProblem.value = error instanceof Error ? error.message : String(error)
  })
  render(<App />, root)
}
