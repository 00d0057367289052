/**
 * Every view of the page, a row each: where it is, under which entry of the navigation it stands, how it is loaded. Views of
 * plugins stand behind those of the core, below `/x/` and the plugin's name: which there are says the shell.
 */
import { readPluginPages } from './data/plugin-pages.js'
import type { View } from './data/view.js'
import { ModelsPage } from './pages/models.js'
import { SignInPage } from './pages/sign-in.js'

/** Whose address leads to no other before somebody has signed in. */
export const SIGN_IN: View = { pattern: '/sign-in', section: null, load: { component: SignInPage } }

const model = '/models/:project/:name'
const OWN: readonly View[] = [
  { pattern: '/', section: 'Models', load: { component: ModelsPage } },
  SIGN_IN,
  { pattern: model, section: 'Models', load: async () => (await import('./pages/model.js')).ModelPage },
  {
    pattern: `${model}/checkpoints`,
    section: 'Models',
    load: async () => (await import('./pages/checkpoints.js')).CheckpointsPage,
  },
  { pattern: `${model}/marks`, section: 'Models', load: async () => (await import('./pages/marks.js')).MarksPage },
  {
    pattern: `${model}/evaluations`,
    section: 'Models',
    load: async () => (await import('./pages/evaluations.js')).EvaluationsPage,
  },
  { pattern: `${model}/watch`, section: 'Models', load: async () => (await import('./pages/watch.js')).WatchPage },
  { pattern: '/compare', section: 'Models', load: async () => (await import('./pages/compare.js')).ComparePage },
  { pattern: '/jobs', section: 'Jobs', load: async () => (await import('./pages/jobs.js')).JobsPage },
  { pattern: '/jobs/:id', section: 'Jobs', load: async () => (await import('./pages/job.js')).JobPage },
  { pattern: '/sessions/:id', section: 'Jobs', load: async () => (await import('./pages/session.js')).SessionPage },
  {
    pattern: '/jobs/:id/groups',
    section: 'Jobs',
    load: async () => (await import('./pages/rollouts.js')).RolloutsPage,
  },
  {
    pattern: '/jobs/:id/groups/:group',
    section: 'Jobs',
    load: async () => (await import('./pages/rollout-group.js')).RolloutGroupPage,
  },
  {
    pattern: '/jobs/:id/groups/:group/:trajectory',
    section: 'Jobs',
    load: async () => (await import('./pages/trajectory.js')).TrajectoryPage,
  },
  { pattern: '/jobs/:id/grader', section: 'Jobs', load: async () => (await import('./pages/grader.js')).GraderPage },
  { pattern: '/loops', section: 'Loops', load: async () => (await import('./pages/loops.js')).LoopsPage },
  { pattern: '/loops/:id', section: 'Loops', load: async () => (await import('./pages/loop.js')).LoopPage },
  { pattern: '/graders', section: 'Graders', load: async () => (await import('./pages/graders.js')).GradersPage },
  { pattern: '/data', section: 'Data', load: async () => (await import('./pages/data.js')).DataPage },
  { pattern: '/train', section: 'Train', load: async () => (await import('./pages/train.js')).TrainPage },
  { pattern: '/play', section: 'Play', load: async () => (await import('./pages/play.js')).PlayPage },
  { pattern: '/settings', section: 'Settings', load: async () => (await import('./pages/settings.js')).SettingsPage },
]

/** All views of this page. */
export function listViews(): readonly View[] {
  const ofPlugins = readPluginPages().map(
    (page): View => ({
      pattern: page.pattern,
      section: page.section,
      load: async () => (await import('./pages/plugin.js')).pluginPage(page),
    }),
  )
  return [...OWN, ...ofPlugins]
}
