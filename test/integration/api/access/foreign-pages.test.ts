/**
 * Scripts of other pages: with `allowedOrigins` the named pages may call everything a key may, also where the answer is an error or a stream;
 * others learn nothing, by scheme, host and port.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const PAGE = 'https://app.example:8443'
let service: TestService
let open: TestService
beforeAll(async () => {
  service = await createTestService({ allowedOrigins: [`${PAGE}/`, 'http://localhost:3000'] })
  open = await createTestService({ allowedOrigins: ['*'] })
})
afterAll(async () => {
  await service.dispose()
  await open.dispose()
})

/** What a browser lets a page read: it needs the permission for the page's own origin. */
function permission(answer: Response): string | null {
  return answer.headers.get('access-control-allow-origin')
}

const chat = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 }

describe('a page that was named', () => {
  it('may ask first, without a key, which methods and headers it may use', async () => {
    const answer = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin: PAGE,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,x-stainless-os',
      },
    })
    expect([answer.status, permission(answer)]).toEqual([204, PAGE])
    expect(answer.headers.get('access-control-allow-methods')).toContain('POST')
    expect(answer.headers.get('access-control-allow-methods')).toContain('DELETE')
    expect(answer.headers.get('access-control-allow-headers')).toBe('authorization,content-type,x-stainless-os')
    expect(answer.headers.get('vary')).toContain('Origin')
    expect(answer.headers.has('access-control-allow-credentials')).toBe(false)
  })

  it.each(['http://localhost:3000', PAGE])('%s reads answers and their headers', async (origin) => {
    const answer = await service.fetch('/v1/chat/completions', { json: chat, headers: { origin } })
    expect([answer.status, permission(answer)]).toEqual([200, origin])
    expect(answer.headers.get('access-control-expose-headers')).toBe('*')
    expect(answer.headers.get('vary')).toContain('Origin')
  })

  it('reads streams', async () => {
    const answer = await service.fetch('/v1/chat/completions', {
      json: { ...chat, stream: true },
      headers: { origin: PAGE },
    })
    expect([answer.headers.get('content-type'), permission(answer)]).toEqual([
      expect.stringContaining('event-stream'),
      PAGE,
    ])
    expect(await answer.text()).toContain('data: [DONE]')
  })

  it.each([
    ['GET', '/v1/preview/models/none', {}, 404],
    ['GET', '/nowhere', {}, 404],
    ['PATCH', '/v1/models', {}, 405],
    ['GET', '/v1/models', { authorization: 'Bearer wrong' }, 401],
  ])('reads why %s %s was refused', async (method, path, headers, status) => {
    const answer = await service.fetch(path, { method, headers: { origin: PAGE, ...headers } })
    expect([answer.status, permission(answer)]).toEqual([status, PAGE])
    expect(((await answer.json()) as { error: object }).error).toBeDefined()
  })
})

it.each(['https://app.example', 'http://app.example:8443', 'https://app.example:8444', 'https://evil.example', 'null'])(
  'a page of %s is refused, and told what its owner can do',
  async (origin) => {
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await service.fetch('/v1/models', {
        method,
        headers: { origin, 'access-control-request-method': 'GET' },
      })
      expect([answer.status, permission(answer)]).toEqual([403, null])
      expect(await answer.text()).toContain(`--allowed-origin ${origin}`)
    }
  },
)

it('answers without a page say that others would differ, for caches', async () => {
  const answer = await service.fetch('/v1/models', {})
  expect([answer.status, permission(answer), answer.headers.get('vary')]).toEqual([200, null, 'Origin'])
})

it('* lets every page in, and no key less is asked for', async () => {
  const answer = await open.fetch('/v1/models', { headers: { origin: 'https://anybody.example' } })
  expect([answer.status, permission(answer)]).toEqual([200, 'https://anybody.example'])
  const stranger = await fetch(`${open.url}/v1/models`, { headers: { origin: 'https://anybody.example' } })
  expect(stranger.status).toBe(401)
})
