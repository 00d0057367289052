/**
 * Authentication: no route is forgotten, and keys of one entity reach nothing of another.
 */

import { readFile, stat } from 'node:fs/promises'
import { request } from 'node:http'
import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { patternOf } from '#service/http/handlers.js'
import { createApiKey } from '#service/storage/api-keys.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { ROUTES } from '../../support/service/with-plugins.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

/** What answers everyone, a second list on purpose: whoever opens an endpoint says it twice. */
const OPEN: readonly string[] = [
  // the gateway asks by itself: a key of ours beside the upstream's, or none where a route is this machine's
  'DELETE /gateway/:gateway_route/v1/:path{[^]+}',
  'GET /',
  'GET /docs',
  'GET /docs/:page',
  'GET /docs/pictures/:file',
  'GET /gateway/:gateway_route/v1/:path{[^]+}',
  'GET /health',
  'GET /metrics',
  'GET /openapi.json',
  'GET /ping',
  'GET /r/:token/v1/models',
  'GET /r/:token/v1/models/:model{[^]+}',
  'GET /ui',
  'GET /ui/:path{[^]+}',
  'GET /v1/health',
  'GET /v1/preview/base-models',
  'GET /v1/ready',
  'GET /v1/system-check',
  'GET /version',
  'GET /wandb/storage',
  'POST /gateway/:gateway_route/v1/:path{[^]+}',
  'POST /ping',
  // the token in the path opens them
  'POST /r/:token/inference/v1/generate',
  'POST /r/:token/tokenize',
  'POST /r/:token/v1/chat/completions',
  'POST /r/:token/v1/completions',
  'POST /r/:token/v1/messages',
  'POST /r/:token/v1/messages/count_tokens',
  'POST /r/:token/v1/responses',
  'POST /r/:token/v1/responses/input_tokens',
  'POST /v1/preview/sessions/exchange',
  'PUT /wandb/storage',
]

describe('keys', () => {
  it('are made once, long enough, stored for their owner only', async () => {
    expect(service.apiKey).toMatch(/^ty_[\w-]{43}$/)
    expect((await readFile(service.apiKeyFile, 'utf8')).trim()).toBe(service.apiKey)
    expect((await stat(service.apiKeyFile)).mode & 0o777).toBe(0o600)
  })

  it('guard every route but the public ones', async () => {
    const routes = service.app.routes.filter((route) => route.method !== 'ALL')
    expect(routes.length).toBeGreaterThan(20)
    const open = ROUTES.filter(({ scope }) => scope === 'open').map((route) => `${route.method} ${patternOf(route)}`)
    expect(open.sort()).toEqual(OPEN)
    for (const { method, path } of routes) {
      const hasOwn = path === '/wandb/storage' || path.startsWith('/r/:token/')
      if (OPEN.includes(`${method} ${path}`) && !hasOwn) continue
      const concrete = path.replaceAll(/:\w+/g, 'x')
      for (const authorization of [
        '',
        'Bearer',
        'Bearer wrong',
        `Basic ${service.apiKey}`,
        `Bearer ${service.apiKey}x`,
      ]) {
        const response = await service.app.request(concrete, {
          method,
          headers: { ...(authorization === '' ? {} : { authorization }), 'content-type': 'application/json' },
        })
        // worker routes prove an attempt instead: without its headers nothing is reached
        // and uploads of the wandb client an address that was signed for them
        const isProven = path.startsWith('/internal/') || path === '/wandb/storage'
        const expected = isProven ? [400, 401, 403, 404, 409, 422] : [401]
        expect(expected, `${method} ${path} with "${authorization}"`).toContain(response.status)
      }
    }
  })

  it('answer 401 in the form of each family of routes', async () => {
    const headers = { authorization: 'Bearer no' }
    const preview = await service.app.request('/v1/preview/models', { headers })
    expect(preview.headers.get('www-authenticate')).toBe('Bearer')
    expect(await preview.json()).toMatchObject({ detail: expect.any(String), error: { code: 'invalid_api_key' } })
    const chat = await service.app.request('/v1/chat/completions', { method: 'POST', headers })
    expect([chat.status, await chat.json()]).toEqual([401, { error: 'Unauthorized' }])
  })

  it('stand in no line of the log, neither right nor wrong ones, however they are sent', async () => {
    const lines: string[] = []
    const logger = createLogger({ level: 'debug', destination: { write: (line) => void lines.push(line) } })
    const logged = await createTestService({ logger })
    try {
      const wrong = `ty_${'WrongKey'.repeat(5)}abc`
      const paths = ['/v1/whoami', '/v1/nothing', '/v1/chat/completions', '/internal/worker/jobs/x', '/graphql']
      for (const key of [logged.apiKey, wrong]) {
        const basic = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
        for (const authorization of [`Bearer ${key}`, basic, key]) {
          for (const path of paths) {
            const headers = { authorization, 'content-type': 'application/json' }
            for (const init of [{ headers }, { headers, method: 'POST', body: '{' }]) await logged.fetch(path, init)
          }
        }
        await logged.fetch(`/v1/whoami?api_key=${key}`, { headers: { 'x-api-key': key } })
      }
      const made = await logged.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'read' } })
      const hook = await logged.json<{ secret: string }>('/v1/preview/webhooks', {
        json: { url: 'https://example.com/' },
      })
      expect([made.status, hook.status]).toEqual([200, 200])
      const log = lines.join('')
      expect(log.match(/"event":"http.request"/g)?.length).toBeGreaterThan(50)
      for (const secret of [logged.apiKey, wrong, made.body.key, hook.body.secret]) {
        expect(log).not.toContain(secret)
        expect(log).not.toContain(Buffer.from(`api:${secret}`).toString('base64'))
      }
    } finally {
      await logged.dispose()
    }
  })

  it("take a password of HTTP Basic from W&B's client alone", async () => {
    const authorization = `Basic ${Buffer.from(`api:${service.apiKey}`).toString('base64')}`
    const statusOf = async (path: string, json?: object) =>
      (await service.fetch(path, { headers: { authorization }, ...(json === undefined ? {} : { json }) })).status
    const chat = { messages: [{ role: 'user', content: 'hi' }] }
    expect(await statusOf('/v1/chat/completions', chat)).toBe(401)
    expect(await statusOf('/v1/responses', { input: 'hi' })).toBe(401)
    expect(await statusOf('/tokenize', { prompt: 'hi' })).toBe(401)
    for (const path of ['/v1/whoami', '/v1/models', '/v1/files', '/v1/preview/keys']) {
      expect(await statusOf(path), path).toBe(401)
    }
    expect(await statusOf('/graphql', { query: '{ viewer { id } }' })).toBe(200)
  })

  it('take the scheme in any case', async () => {
    const response = await service.app.request('/v1/whoami', { headers: { authorization: `bearer ${service.apiKey}` } })
    expect(response.status).toBe(200)
  })
})

describe('entities', () => {
  it('see nothing of each other', async () => {
    const modelId = await service.createModel('secret')
    const created = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: modelId, trajectory_groups: [sampleGroup()] },
    })
    const jobId = created.body.id
    await service.waitForJob(jobId)
    const database = await service.openRows()
    const foreignKey = await createApiKey(database.db, systemIds, 'others')
    await database.close()
    service = await service.restart()

    const authorization = `Bearer ${foreignKey}`
    const call = async (method: string, path: string, json?: object) => {
      const response = await service.app.request(path, {
        method,
        headers: { authorization, 'content-type': 'application/json' },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      })
      const text = await response.text()
      expect(text, path).not.toContain('secret')
      return response.status
    }
    for (const [method, path, json] of [
      ['GET', `/v1/preview/models/${modelId}`],
      ['DELETE', `/v1/preview/models/${modelId}`],
      ['GET', `/v1/preview/models/${modelId}/checkpoints`],
      ['DELETE', `/v1/preview/models/${modelId}/checkpoints`, { steps: [1] }],
      ['GET', `/v1/preview/models/${modelId}/checkpoints/1/files`],
      ['GET', `/v1/preview/training-jobs/${jobId}`],
      ['GET', `/v1/preview/training-jobs/${jobId}/events`],
      ['POST', `/v1/preview/training-jobs/${jobId}/cancel`],
      ['POST', '/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [] }],
      ['POST', `/v1/preview/models/${modelId}/log`, { split: 'val', trajectory_groups: [] }],
      ['POST', '/v1/chat/completions', { model: 'local/tests/x', messages: [{ role: 'user', content: 'x' }] }],
    ] as const) {
      expect(await call(method, path, json), `${method} ${path}`).toBe(404)
    }
    expect(await call('GET', '/v1/preview/models')).toBe(200)
    expect(await call('GET', '/v1/models')).toBe(200)
    expect((await service.json<{ step: number }>(`/v1/preview/models/${modelId}`)).body.step).toBe(1)
  })
})

describe('hosts', () => {
  it('that are not this machine reach nothing unless a server is told to listen for them', async () => {
    const { hostname, port } = new URL(service.url)
    expect(hostname).toBe('127.0.0.1')
    const outside = Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .filter(({ internal, family }) => !internal && family === 'IPv4')
    for (const { address } of outside) {
      await expect(fetch(`http://${address}:${port}/v1/health`), address).rejects.toThrow()
    }
  })

  it('of other pages get no word that a browser would let them read', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1.evil.example']) {
      for (const [method, path] of [
        ['GET', '/v1/models'],
        ['OPTIONS', '/v1/chat/completions'],
        ['POST', '/v1/chat/completions'],
      ] as const) {
        const headers = { origin, 'access-control-request-method': 'POST', 'content-type': 'application/json' }
        const answer = await service.fetch(path, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) })
        const open = [...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))
        expect([answer.status, open], `${method} ${path} from ${origin}`).toEqual([403, []])
      }
    }
  })

  it('that are not ours are refused: DNS rebinding', async () => {
    const { port } = new URL(service.url)
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const outgoing = request(
        { host: '127.0.0.1', port, path: '/v1/health', headers: { host: 'evil.example' } },
        (response) => {
          response.resume()
          resolve(response.statusCode)
        },
      )
      outgoing.on('error', reject)
      outgoing.end()
    })
    expect(status).toBe(403)
  })
})
