/**
 * The addresses of the page and the names of what they show. Pure: knows no browser.
 */

/** Every page by its name; `:name` is one part of the path. */
const PATTERNS = {
  models: '/',
  'sign-in': '/sign-in',
  model: '/models/:project/:name',
  checkpoints: '/models/:project/:name/checkpoints',
  marks: '/models/:project/:name/marks',
  evaluations: '/models/:project/:name/evaluations',
  watch: '/models/:project/:name/watch',
  compare: '/compare',
  jobs: '/jobs',
  job: '/jobs/:id',
  session: '/sessions/:id',
  rollouts: '/jobs/:id/groups',
  'rollout-group': '/jobs/:id/groups/:group',
  trajectory: '/jobs/:id/groups/:group/:trajectory',
  play: '/play',
  train: '/train',
  data: '/data',
  settings: '/settings',
} as const

export type PageName = keyof typeof PATTERNS | 'nowhere'

export interface Route {
  readonly page: PageName
  readonly params: Readonly<Record<string, string>>
}

const table = Object.entries(PATTERNS).map(([page, pattern]) => ({ page: page as PageName, parts: pattern.split('/') }))

/** @param path below the page's folder, without a slash at its end */
export function matchRoute(path: string): Route {
  const given = path.split('/')
  for (const { page, parts } of table) {
    if (parts.length !== given.length) continue
    const params: Record<string, string> = {}
    const fits = parts.every((part, i) => {
      const value = decode(given[i] ?? '')
      if (!part.startsWith(':')) return part === value
      params[part.slice(1)] = value
      return value !== ''
    })
    if (fits) return { page, params }
  }
  return { page: 'nowhere', params: {} }
}

/** The address of a model's page, and of one below it. */
export function modelPath(model: { readonly project: string; readonly name: string }, below = ''): string {
  return `/models/${encodeURIComponent(model.project)}/${encodeURIComponent(model.name)}${below}`
}

/** A part of a path as text; one that is no percent-code stays as it is. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
