/** Addresses of the page. */
import { expect, test } from 'vitest'
import { matchRoute, modelPath } from '../../../../src/ui/data/match.js'

test.each([
  ['/', 'models', {}],
  ['/jobs/x', 'job', { id: 'x' }],
  ['/models/a/b', 'model', { project: 'a', name: 'b' }],
  ['/models/a/b%2Fc%20d', 'model', { project: 'a', name: 'b/c d' }],
  ['/models/a/%E0%A4%A', 'model', { project: 'a', name: '%E0%A4%A' }],
  ['/models/a/', 'nowhere', {}],
  ['/models/a/b/checkpoints', 'checkpoints', { project: 'a', name: 'b' }],
  ['/models/a/b/c', 'nowhere', {}],
  ['/__proto__', 'nowhere', {}],
])('%s is %s', (path, page, params) => {
  expect(matchRoute(path)).toEqual({ page, params })
})

test.each(['plain', 'a/b', '<b>', '100%', '..', 'ü 中'])('a model called %s is found by its address', (name) => {
  expect(matchRoute(modelPath({ project: 'p', name }))).toEqual({ page: 'model', params: { project: 'p', name } })
})
