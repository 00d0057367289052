/**
 * Settings of a proxy that mean nothing are refused by name; what an untrusted one says counts for nothing.
 */
import { Hono } from 'hono'
import { expect, it } from 'vitest'
import { createPublicAddress } from '#service/http/public-address.js'
import { expectCode } from '../../../support/expect-code.js'

it.each([
  'train.example',
  'ftp://train.example',
  'https://train.example/?a=1',
  'https://me:pw@train.example',
  'https://train.example/#x',
])('publicUrl %s is refused', async (publicUrl) => {
  await expectCode(() => createPublicAddress({ publicUrl, trustedProxies: [] }), 'invalid_setting')
})

it.each(['proxy.example', '10.0.0.0/33', '::1/129', '10.0.0.0/8/8', '10.0.0.1/', ''])(
  'trustedProxies %s is refused',
  async (proxy) => {
    await expectCode(() => createPublicAddress({ publicUrl: null, trustedProxies: [proxy] }), 'invalid_setting')
  },
)

const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'train.example', 'x-forwarded-prefix': '/train/' }

async function addressFor(trusted: string, peer: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const address = createPublicAddress({ publicUrl: null, trustedProxies: [trusted] })
  const app = new Hono()
  app.get('/', (c) => c.text(address.of(c)))
  const env = { incoming: { socket: { remoteAddress: peer } } }
  return await (await app.request('http://inner:8642/', { headers }, env)).text()
}

it.each([
  ['10.0.0.0/8', '10.1.2.3', 'https://train.example/train'],
  ['10.0.0.0/8', '::ffff:10.1.2.3', 'https://train.example/train'],
  ['fd00::/8', 'fd00::7', 'https://train.example/train'],
  ['10.0.0.7', '10.0.0.8', 'http://inner:8642'],
])('with %s trusted, %s stands before %s', async (trusted, peer, expected) => {
  expect(await addressFor(trusted, peer, forwarded)).toBe(expected)
})

it.each([
  [{ 'x-forwarded-proto': 'gopher' }, 'http://inner:8642'],
  [{ 'x-forwarded-host': 'a b' }, 'http://inner:8642'],
  [{ 'x-forwarded-prefix': '"><script>' }, 'http://inner:8642'],
  [{ 'x-forwarded-prefix': '//evil.example' }, 'http://inner:8642'],
  [{ 'x-forwarded-proto': 'https, http', 'x-forwarded-host': 'train.example, inner' }, 'https://train.example'],
])('a trusted proxy that says %j means %s', async (headers, expected) => {
  expect(await addressFor('10.0.0.7', '10.0.0.7', headers)).toBe(expected)
})

it.each([
  ['10.0.0.9', '192.0.2.1', '10.0.0.9'],
  ['10.0.0.7', '192.0.2.1', '192.0.2.1'],
  ['::ffff:10.0.0.7', '2001:db8::1', '2001:db8::1'],
  // what a client says of itself stands first
  ['10.0.0.7', '198.51.100.9, 192.0.2.1', '192.0.2.1'],
  ['10.0.0.7', '192.0.2.1, 10.0.0.7', '192.0.2.1'],
  ['10.0.0.7', '192.0.2.1, somebody', '10.0.0.7'],
  ['10.0.0.7', '10.0.0.7', '10.0.0.7'],
  ['10.0.0.7', '', '10.0.0.7'],
])(
  'behind 10.0.0.7, %s that says "%s" brings a request of %s, with and without a public URL',
  async (peer, said, expected) => {
    for (const publicUrl of [null, 'https://train.example']) {
      const address = createPublicAddress({ publicUrl, trustedProxies: ['10.0.0.7'] })
      const app = new Hono()
      app.get('/', (c) => c.text(address.clientOf(c) ?? 'nobody'))
      const headers = { 'x-forwarded-for': said }
      const env = { incoming: { socket: { remoteAddress: peer }, headers } }
      expect(await (await app.request('http://inner:8642/', { headers }, env)).text()).toBe(expected)
    }
  },
)

it('takes its own prefix off a path, and nothing that only looks like it', () => {
  const address = createPublicAddress({ publicUrl: 'https://train.example/yard/', trustedProxies: [] })
  const paths = ['/yard/v1/models', '/yard', '/yard/', '/yardstick', '/v1/models']
  expect(paths.map(address.pathWithin)).toEqual(['/v1/models', '/', '/', '/yardstick', '/v1/models'])
})
