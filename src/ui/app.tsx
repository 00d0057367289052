/**
 * The page: which of its parts an address shows. A client of the public API like any other.
 */

import type { ComponentType, JSX } from 'preact'
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { followLinks, go, here, hrefOf, path, route } from './data/address.js'
import { toApiError } from './data/api-error.js'
import { followActivity } from './data/live.js'
import type { PageName } from './data/match.js'
import { credential } from './data/session.js'
import { identify, signInByCode } from './data/sign-in.js'
import { ModelsPage } from './pages/models.js'
import { codeProblem, OtherSession, SignInPage } from './pages/sign-in.js'
import { Layout, Title } from './parts/layout.js'
import { applyTheme, watchSystemTheme } from './parts/theme.js'

type Page = ComponentType
/** Before who is signed in is asked again. */
const RETRY_MS = 3000
/** A skeleton that comes and goes within this time is only a flicker. */
const SLOW_MS = 200
/** Pages that are loaded when they are opened. */
const LATER: Partial<Readonly<Record<PageName, () => Promise<Page>>>> = {
  model: async () => (await import('./pages/model.js')).ModelPage,
  checkpoints: async () => (await import('./pages/checkpoints.js')).CheckpointsPage,
  marks: async () => (await import('./pages/marks.js')).MarksPage,
  evaluations: async () => (await import('./pages/evaluations.js')).EvaluationsPage,
  watch: async () => (await import('./pages/watch.js')).WatchPage,
  compare: async () => (await import('./pages/compare.js')).ComparePage,
  jobs: async () => (await import('./pages/jobs.js')).JobsPage,
  job: async () => (await import('./pages/job.js')).JobPage,
  session: async () => (await import('./pages/session.js')).SessionPage,
  data: async () => (await import('./pages/data.js')).DataPage,
  train: async () => (await import('./pages/train.js')).TrainPage,
  rollouts: async () => (await import('./pages/rollouts.js')).RolloutsPage,
  'rollout-group': async () => (await import('./pages/rollout-group.js')).RolloutGroupPage,
  trajectory: async () => (await import('./pages/trajectory.js')).TrajectoryPage,
  play: async () => (await import('./pages/play.js')).PlayPage,
  settings: async () => (await import('./pages/settings.js')).SettingsPage,
}
const NOW: Partial<Readonly<Record<PageName, Page>>> = { models: ModelsPage, 'sign-in': SignInPage, nowhere: Nowhere }

function App(): JSX.Element {
  const { page } = route.value
  const isSignedIn = credential.value !== null
  useEffect(() => {
    if (!isSignedIn && page !== 'sign-in') go(`/sign-in?back=${encodeURIComponent(here.peek())}`, { replaces: true })
  }, [isSignedIn, page])
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
      {(isSignedIn || page === 'sign-in') && <Shown page={page} />}
      <OtherSession />
    </Layout>
  )
}

/** Parts of the page by name, each asked for once. */
const asked = new Map<PageName, Promise<Page>>()

function askFor(page: PageName): Promise<Page> | undefined {
  const known = asked.get(page) ?? LATER[page]?.()
  if (known !== undefined) asked.set(page, known)
  return known
}

function Shown({ page }: { readonly page: PageName }): JSX.Element {
  const [loaded, setLoaded] = useState<Partial<Record<PageName, Page>>>(NOW)
  const [failed, setFailed] = useState<PageName | null>(null)
  const [isSlow, setIsSlow] = useState(false)
  useEffect(() => {
    if (loaded[page] !== undefined) return
    const slow = setTimeout(() => setIsSlow(true), SLOW_MS)
    askFor(page)
      ?.then(
        (component) => setLoaded((all) => ({ ...all, [page]: component })),
        () => setFailed(page),
      )
      .finally(() => {
        clearTimeout(slow)
        setIsSlow(false)
      })
  }, [page])
  const Component = loaded[page]
  // another thing is another page: nothing of one is shown as the other's
  if (Component !== undefined) return <Component key={path.value} />
  if (failed === page) return <NotLoaded />
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
  // at once, so that it comes while who is signed in is asked; a failure shows where the page does
  askFor(route.peek().page)?.catch(() => undefined)
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
