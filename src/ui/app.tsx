/**
 * The page: which of its parts an address shows. A client of the public API like any other.
 */

import type { ComponentType, JSX } from 'preact'
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { followLinks, go, here, hrefOf, path, route } from './data/address.js'
import { followActivity } from './data/live.js'
import type { PageName } from './data/match.js'
import { credential } from './data/session.js'
import { identify, signInByCode } from './data/sign-in.js'
import { ModelsPage } from './pages/models.js'
import { codeProblem, OtherSession, SignInPage } from './pages/sign-in.js'
import { Layout, Title } from './parts/layout.js'
import { applyTheme, watchSystemTheme } from './parts/theme.js'

type Page = ComponentType
/** Pages that are loaded when they are opened. */
const LATER: Partial<Readonly<Record<PageName, () => Promise<Page>>>> = {
  model: async () => (await import('./pages/model.js')).ModelPage,
  checkpoints: async () => (await import('./pages/checkpoints.js')).CheckpointsPage,
  marks: async () => (await import('./pages/marks.js')).MarksPage,
  evaluations: async () => (await import('./pages/evaluations.js')).EvaluationsPage,
  watch: async () => (await import('./pages/watch.js')).WatchPage,
  jobs: async () => (await import('./pages/jobs.js')).JobsPage,
  job: async () => (await import('./pages/job.js')).JobPage,
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
    // a credential that is not valid shows at the first block, which says more
    if (isSignedIn) void identify().catch(() => undefined)
  }, [isSignedIn])
  return (
    <Layout>
      {(isSignedIn || page === 'sign-in') && <Shown page={page} />}
      <OtherSession />
    </Layout>
  )
}

function Shown({ page }: { readonly page: PageName }): JSX.Element | null {
  const [loaded, setLoaded] = useState<Partial<Record<PageName, Page>>>(NOW)
  useEffect(() => {
    const load = LATER[page]
    if (loaded[page] === undefined)
      void load?.().then((component) => setLoaded((all) => ({ ...all, [page]: component })))
  }, [page])
  const Component = loaded[page]
  // another thing is another page: nothing of one is shown as the other's
  return Component === undefined ? null : <Component key={path.value} />
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
