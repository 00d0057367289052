/**
 * A hundred secrets of many kinds, said by clients and by the upstream, whole and cut into parts, in texts, tools and names: none is found in
 * the data directory, in rows, in logs or in what the API says. What stands around them is kept.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createRng } from '#base/util/rng.js'
import { maskJson, maskText } from '#plugins/gateway/record/mask.js'
import type { Route } from '#plugins/gateway/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'
import { type FakeUpstream, startUpstream } from './upstream.js'

const rng = createRng('secrets')
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const some = (length: number, of = LETTERS): string =>
  Array.from({ length }, () => of[rng.integer(of.length)] ?? '').join('')
const hex = (length: number): string => some(length, '0123456789abcdef')
const upper = (length: number): string => some(length, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')

/** What is secret, and how it is said; forms as their services document them. */
const KINDS: Readonly<Record<string, () => readonly [secret: string, said: string]>> = Object.fromEntries(
  Object.entries({
    openai: () => `sk-${some(48)}`,
    'openai project': () => `sk-proj-${some(40)}-${some(20)}_${some(10)}`,
    anthropic: () => `sk-ant-api03-${some(60)}-${some(20)}AA`,
    ours: () => `ty_${some(40)}`,
    github: () => `ghp_${some(36)}`,
    'github app': () => `ghs_${some(36)}`,
    'github fine-grained': () => `github_pat_${some(22)}_${some(59)}`,
    gitlab: () => `glpat-${some(20)}`,
    'aws id': () => `AKIA${upper(16)}`,
    google: () => `AIza${some(35)}`,
    'google oauth': () => `ya29.${some(60)}`,
    slack: () => `xoxb-${some(12, '0123456789')}-${some(24)}`,
    'slack hook': () => `https://hooks.slack.com/services/T${upper(8)}/B${upper(8)}/${some(24)}`,
    stripe: () => `sk_live_${some(24)}`,
    'stripe restricted': () => `rk_test_${some(24)}`,
    webhook: () => `whsec_${some(32)}`,
    'hugging face': () => `hf_${some(34)}`,
    npm: () => `npm_${some(36)}`,
    pypi: () => `pypi-${some(60)}`,
    sendgrid: () => `SG.${some(22)}.${some(43)}`,
    twilio: () => `SK${hex(32)}`,
    digitalocean: () => `dop_v1_${hex(64)}`,
    shopify: () => `shpat_${hex(32)}`,
    groq: () => `gsk_${some(52)}`,
    xai: () => `xai-${some(80)}`,
    vault: () => `hvs.${some(90)}`,
    telegram: () => `${some(9, '123456789')}:AA${some(33)}`,
    jwt: () => `eyJ${some(30)}.eyJ${some(60)}.${some(43)}`,
    email: () => `${some(8).toLowerCase()}.${some(5).toLowerCase()}@${some(9).toLowerCase()}.example.com`,
    'of a pattern': () => `EMP-${some(6, '0123456789')}`,
  }).map(([kind, make]) => [
    kind,
    () => {
      const secret = make()
      return [secret, `before ${secret} after`] as const
    },
  ]),
)
const IN_WORDS: typeof KINDS = {
  bearer: () => said(some(40), (secret) => `Authorization: Bearer ${secret}`),
  basic: () => said(`${some(30)}==`, (secret) => `authorization: Basic ${secret}`),
  'aws secret': () => said(some(40), (secret) => `aws_secret_access_key = ${secret}`),
  password: () => said(some(14), (secret) => `password: "${secret}"`),
  'variable of a shell': () => said(some(20), (secret) => `export API_KEY='${secret}'`),
  'escaped json': () => said(some(20), (secret) => `{\\"client_secret\\": \\"${secret}\\"}`),
  'address with a password': () => said(some(16), (secret) => `postgres://admin:${secret}@db.internal:5432/x`),
  'account key': () => said(`${some(86)}==`, (secret) => `AccountKey=${secret};EndpointSuffix=core`),
  'private key': () =>
    said(
      some(64),
      (secret) => `-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n${secret}\n-----END RSA PRIVATE KEY-----`,
    ),
}
function said(secret: string, how: (secret: string) => string): readonly [string, string] {
  return [secret, how(secret)]
}

const makers = Object.values({ ...KINDS, ...IN_WORDS })
const SECRETS = Array.from({ length: 100 }, (_, i) => (makers[i % makers.length] as (typeof makers)[number])())
const PATTERN = 'EMP-\\d{6}'

describe('masking', () => {
  it.each(SECRETS.slice(0, makers.length))('%s', (secret, text) => {
    const masked = maskText(text, [/EMP-\d{6}/gu])
    expect(masked).not.toContain(secret)
    expect(masked).toContain('[masked:')
  })

  it('leaves what is none: words, numbers, code, addresses, files', () => {
    const plain = [
      'The task-force asked for a secret santa; ask-me-anything at 12:30, disk-usage-report-2026-final.',
      'const token = await getToken(); // password field',
      'max_tokens: 4096, https://example.com/a/b?c=d#e, 0199f3a2-0000-7000-8000-000000000000',
      'data:image/png;base64,AKIAIOSFODNN7EXAMPLE0123',
      'price: 12,345.67 EUR; Grüße 世界 🌍',
    ]
    expect(plain.map((text) => maskText(text, []))).toEqual(plain)
  })

  it('masks by the name of a field, and not the schema of one', () => {
    const given = { password: 'hunter2', properties: { password: { type: 'string' } }, 'a@b.example.com': 1 }
    const masked = { password: '[masked:secret]', properties: { password: { type: 'string' } }, '[masked:email]': 1 }
    expect(maskJson(given, [])).toEqual(masked)
  })
})

describe('a hundred secrets through the gateway', () => {
  let upstream: FakeUpstream
  let service: TestService
  const logged: string[] = []
  const URL_OF_ROUTES = '/v1/preview/gateway-routes'
  const AUTHORIZATION = `Bearer sk-client-${some(40)}`
  beforeAll(async () => {
    upstream = await startUpstream()
    service = await createTestService({
      gatewayHosts: [upstream.host],
      logger: createLogger({ level: 'debug', destination: { write: (line) => logged.push(line) } }),
      tuning: { plugins: { gateway: { pauseMs: 5 } } },
    })
  })
  afterAll(async () => {
    await service.dispose()
    await upstream.close()
  })

  it('none is on the disk, in the rows, in the log, or shown', async () => {
    const json = { name: 'secrets', upstream: upstream.url, mask_patterns: [PATTERN] }
    const { body: route } = await service.json<Route>(URL_OF_ROUTES, { json })
    for (const [i, [, text]] of SECRETS.entries()) {
      const messages = [{ role: 'user', content: text }]
      const tool = { name: 'look', description: text, input_schema: { type: 'object' }, parameters: { type: 'object' } }
      const [path, body] = (
        [
          ['chat/completions', { model: 'echo', messages, stream: true, metadata: { [text]: text } }],
          ['messages', { model: 'echo', max_tokens: 9, messages, stream: true, system: text }],
          ['responses', { model: 'echo', input: text, stream: i % 2 === 0, instructions: text }],
          ['chat/completions', { model: 'echo', messages, tools: [{ type: 'function', function: tool }] }],
        ] as const
      )[i % 4] as readonly [string, object]
      const answer = await fetch(`${service.url}${route.path}/${path}`, {
        method: 'POST',
        headers: {
          authorization: AUTHORIZATION,
          'x-trainyard-key': service.apiKey,
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
      })
      expect(answer.status).toBe(200)
      await answer.text()
    }
    const summary = await until(async () => {
      const { body } = await service.json<{ recorded: { calls: number; content: object } }>(`${URL_OF_ROUTES}/secrets`)
      return body.recorded.calls >= SECRETS.length ? body : null
    }, 'a hundred recorded calls')
    expect(summary.recorded.content).toEqual({ kept: SECRETS.length })
    const rows = await service.openRows()
    const stored = await rows.db
      .withTables<{ gateway_calls: { request: string; answer: string } }>()
      .selectFrom('gateway_calls')
      .select(['request', 'answer'])
      .execute()
    await rows.close()
    expect(stored).toHaveLength(SECRETS.length)
    // something was kept all the same
    expect(stored.filter(({ request }) => request.includes('before ')).length).toBeGreaterThan(50)
    const shown = await (await service.fetch(`${URL_OF_ROUTES}/secrets/rows`)).text()
    const places = {
      rows: JSON.stringify(stored),
      shown,
      log: logged.join('\n'),
      disk: await everythingBelow(service.dataDir),
    }
    const all = [...SECRETS.map(([secret]) => secret), AUTHORIZATION.replace('Bearer ', '')]
    for (const [place, text] of Object.entries(places)) {
      expect(
        all.filter((secret) => text.includes(secret)),
        place,
      ).toEqual([])
    }
  })
})

async function everythingBelow(folder: string): Promise<string> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const texts = files
    .filter((file) => file.isFile())
    .map((file) => readFile(join(file.parentPath, file.name), 'latin1'))
  return (await Promise.all(texts)).join('\n')
}
