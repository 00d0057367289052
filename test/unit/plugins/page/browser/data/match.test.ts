/** Addresses of the page. */
import { expect, test } from 'vitest'
import {
  matchRoute,
  modelPath,
  sectionsOf,
  type ViewAddress,
} from '../../../../../../src/plugins/page/browser/data/match.js'

const view = (pattern: string, section: string | null): ViewAddress => ({ pattern, section })
const VIEWS = [
  view('/', 'Models'),
  view('/sign-in', null),
  view('/models/:project/:name', 'Models'),
  view('/models/:project/:name/checkpoints', 'Models'),
  view('/jobs/:id', 'Jobs'),
  view('/jobs', 'Jobs'),
]

test.each([
  ['/', '/', {}],
  ['/jobs/x', '/jobs/:id', { id: 'x' }],
  ['/models/a/b', '/models/:project/:name', { project: 'a', name: 'b' }],
  ['/models/a/b%2Fc%20d', '/models/:project/:name', { project: 'a', name: 'b/c d' }],
  ['/models/a/%E0%A4%A', '/models/:project/:name', { project: 'a', name: '%E0%A4%A' }],
  ['/models/a/', null, {}],
  ['/models/a/b/checkpoints', '/models/:project/:name/checkpoints', { project: 'a', name: 'b' }],
  ['/models/a/b/c', null, {}],
  ['/__proto__', null, {}],
])('%s is %s', (path, pattern, params) => {
  const found = matchRoute(path, VIEWS)
  expect([found.view?.pattern ?? null, found.params]).toEqual([pattern, params])
})

test.each(['plain', 'a/b', '<b>', '100%', '..', 'ü 中'])('a model called %s is found by its address', (name) => {
  const { view: found, params } = matchRoute(modelPath({ project: 'p', name }), VIEWS)
  expect([found, params]).toEqual([VIEWS[2], { project: 'p', name }])
})

test('the navigation has each section once, at the first view that can be gone to', () => {
  expect(sectionsOf(VIEWS)).toEqual([
    { title: 'Models', path: '/' },
    { title: 'Jobs', path: '/jobs' },
  ])
})
