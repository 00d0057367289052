/** Which addresses are allowed, and that the hint names the flag only where allowing the host would help. */
import { describe, expect, test } from 'vitest'
import { createAddressRules } from '#service/operations/address-rules.js'

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
    expect(createAddressRules([host]).check(url).href).toBe(new URL(url).href)
  })

  test.each([
    ['localhost:80', 'https://localhost/hook'],
    ['127.0.0.1:8977', 'http://127.0.0.1:8978/hook'],
  ])('%s is not that of %s', (host, url) => {
    expect(() => createAddressRules([host]).check(url)).toThrow('url must')
  })
})

test.each([
  ['http://127.0.0.1:9/hook', 'must be an https: address, got http:', '--webhook-host 127.0.0.1:9'],
  ['https://10.0.0.1/hook', 'must not point into a private network', '--webhook-host 10.0.0.1'],
  ['http://me:word@127.0.0.1:8977/hook', 'must not hold a user name', null],
  ['ftp://127.0.0.1:8977/hook', 'must be an https: address, got ftp:', null],
  ['not an address', 'must be an https: address', null],
])('%s is refused', (url, message, flag) => {
  const refusal = refusalOf(() => createAddressRules(['127.0.0.1:8977']).check(url))
  expect(refusal.message).toContain(message)
  if (flag === null) expect(refusal.hint).toBeUndefined()
  else expect(refusal.hint).toContain(`trainyard serve ${flag}`)
})

function refusalOf(check: () => unknown): { readonly message: string; readonly hint?: string } {
  try {
    check()
  } catch (error) {
    return error as { readonly message: string; readonly hint?: string }
  }
  throw new Error('it was taken')
}
