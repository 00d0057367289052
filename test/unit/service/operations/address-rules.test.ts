/** Which addresses are allowed, and that the hint names the flag only where allowing the host would help. */
import { setMaxListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { createWebhookRules } from '#plugins/webhooks/start.js'
import { createNameService } from '#service/operations/address-rules.js'

describe('an allowed host', () => {
  test.each([
    ['127.0.0.1:8977', 'http://127.0.0.1:8977/hook'],
    ['127.0.0.1', 'http://127.0.0.1:8977/hook'],
    ['localhost:80', 'http://localhost/hook'],
    ['localhost:80', 'http://localhost:80/hook'],
    ['Intranet:443', 'https://intranet/hook'],
    ['[::1]:8977', 'http://[::1]:8977/hook'],
    ['::1', 'http://[::1]/hook'],
  ])('%s is that of %s', (host, url) => {
    expect(createWebhookRules([host]).check(url).href).toBe(new URL(url).href)
  })

  test.each([
    ['localhost:80', 'https://localhost/hook'],
    ['127.0.0.1:8977', 'http://127.0.0.1:8978/hook'],
  ])('%s is not that of %s', (host, url) => {
    expect(() => createWebhookRules([host]).check(url)).toThrow('url must')
  })
})

test.each([
  ['http://127.0.0.1:9/hook', 'must be an https: address, got http:', '--webhook-host 127.0.0.1:9'],
  ['https://10.0.0.1/hook', 'must not point into a private network', '--webhook-host 10.0.0.1'],
  ['http://me:word@127.0.0.1:8977/hook', 'must not hold a user name', null],
  ['ftp://127.0.0.1:8977/hook', 'must be an https: address, got ftp:', null],
  ['not an address', 'must be an https: address', null],
])('%s is refused', (url, message, flag) => {
  const refusal = refusalOf(() => createWebhookRules(['127.0.0.1:8977']).check(url))
  expect(refusal.message).toContain(message)
  if (flag === null) expect(refusal.hint).toBeUndefined()
  else expect(refusal.hint).toContain(`trainyard serve ${flag}`)
})

test.each([
  'localhost.',
  'LOCALHOST..',
  'a.localhost.',
  'intranet.',
  'db.internal.',
  'printer.local.',
  '127.0.0.1.',
  '127.1',
  '2130706433',
  '0x7f000001',
  '0177.0.0.1',
  '0',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[fe80::1]',
  '[fd00::1]',
  '169.254.169.254',
  '１２７.0.0.1',
])('https://%s leads inward, however it is written', (host) => {
  expect(() => createWebhookRules([]).check(`https://${host}/hook`)).toThrow(
    /must not point into a private network|must be an https: address/,
  )
})

test('a full name of an allowed host is that host', () => {
  expect(createWebhookRules(['localhost:8977']).check('http://localhost:8977/hook').hostname).toBe('localhost')
  expect(createWebhookRules(['intranet']).check('https://intranet./hook').hostname).toBe('intranet.')
})

test('a name of the private network and one that does not exist are refused in the same words', async () => {
  const rules = createWebhookRules([])
  const wordsOf = async (host: string) => {
    const refusal = await rules
      .resolve(new URL(`https://${host}/`), 'key', new AbortController().signal)
      .catch((error: unknown) => error as Error)
    if (!(refusal instanceof Error)) throw new Error(`${host} was resolved`)
    return refusal.message
  }
  // `localhost` has an address wherever this runs; `check` refuses it, a name like it that it cannot know comes here
  expect(await wordsOf('localhost')).toBe(await wordsOf('nowhere.invalid'))
})

test('names of one key that nobody answers for hold up no other key', async () => {
  const never = new Promise<never>(() => undefined)
  const asked: string[] = []
  const lookUp = createNameService((host) => {
    asked.push(host)
    return host.startsWith('slow') ? never : Promise.resolve([{ address: '192.0.2.1' }, { address: '203.0.113.9' }])
  })
  const rules = createWebhookRules(['fast.example'], lookUp)
  const { signal } = new AbortController()
  const leaving = new AbortController()
  setMaxListeners(0, leaving.signal)
  const slow = Array.from({ length: 20 }, (_, i) =>
    rules.resolve(new URL(`https://slow-${i}.example/`), 'one', leaving.signal).catch((error: Error) => error.name),
  )
  expect(await rules.resolve(new URL('https://fast.example/'), 'another', signal)).toBe('192.0.2.1')
  expect(asked).toEqual(['slow-0.example', 'fast.example'])
  // who stops waiting leaves the queue
  leaving.abort()
  expect(await Promise.all(slow.slice(1))).toEqual(Array.from({ length: 19 }, () => 'AbortError'))
})

function refusalOf(check: () => unknown): { readonly message: string; readonly hint?: string } {
  try {
    check()
  } catch (error) {
    return error as { readonly message: string; readonly hint?: string }
  }
  throw new Error('it was taken')
}
