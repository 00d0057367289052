/**
 * At which requests a key is looked at, as it is known before the application sees them.
 */
import { expect, it } from 'vitest'
import { createKeyQuestion } from '#service/http/middleware/auth.js'
import { API_ROUTES, TABLE } from '../../../../support/service/with-plugins.js'

const asksForKey = createKeyQuestion(TABLE)

it.each([
  ['POST', '/v1/chat/completions', true],
  ['POST', '/v1/chat/completions/', true],
  ['GET', '/v1/models', true],
  ['POST', '/v1/preview/sessions/exchange', false],
  ['POST', '/v1/preview/sessions/exchange/', false],
  ['PUT', '/wandb/storage', false],
  // nothing that is written in another way counts for more
  ['POST', '/v1/preview/sessions/%65xchange', false],
  ['POST', '//v1/chat/completions', false],
  ['POST', 'http://localhost/v1/preview/sessions/exchange', false],
])('%s %s: %s', (method, path, asks) => {
  expect(asksForKey(method, path)).toBe(asks)
})

it('knows every endpoint', () => {
  const wrong = API_ROUTES.filter(
    ({ method, path, scope }) => asksForKey(method, path.replaceAll(/\{\+?\w+\}/g, 'x')) !== (scope !== 'open'),
  )
  expect(wrong.map(({ method, path }) => `${method} ${path}`)).toEqual([])
})
