/**
 * Of what only one can have, a second is refused by the plugin that brings it.
 */
import { describe, expect, test } from 'vitest'
import { INSTALLED } from '#plugins/index.js'
import { checkForeign, checkTogether } from '#service/check-plugin.js'
import type { Plugin } from '#service/plugin.js'

const NOTHING = { endpoints: {}, sections: [] }
const together = (...plugins: readonly Plugin[]) =>
  checkTogether(
    plugins,
    plugins.map(() => ({ runs: [] })),
    NOTHING,
  )
const opens = (name: string, ...schemes: readonly string[]): Plugin => ({
  name,
  blobStores: [{ schemes, example: `${schemes[0]}://place`, read: () => Promise.reject(new Error('not asked')) }],
})
const peers = () => Promise.reject(new Error('not asked'))

describe('plugins together', () => {
  test('of the package are taken, with one more that opens another scheme', () => {
    expect(() => together(...INSTALLED.plugins, opens('mine', 'mine'))).not.toThrow()
  })

  test.each([
    ['two that open a scheme', [opens('one', 'a', 'b'), opens('two', 'b')], 'plugin "two": addresses b:// are opened'],
    ['one beside the package', [...INSTALLED.plugins, opens('two', 's3')], 'plugin "two": addresses s3:// are opened'],
    [
      'two that join servers',
      [
        { name: 'one', peers },
        { name: 'two', peers },
      ],
      'plugin "two": another plugin joins',
    ],
  ])('are refused: %s', (_, plugins: readonly Plugin[], words) => {
    expect(() => together(...plugins)).toThrow(words)
  })
})

test.each([
  [{ name: 'mine', databases: {} }, '"databases" must be a list'],
  [{ name: 'mine', blobStores: 's3' }, '"blobStores" must be a list'],
  [{ name: 'mine', peers: [] }, '"peers" must be a function'],
])('a manifest of somebody else is refused for a member of another form: %o', (manifest, words) => {
  expect(() => checkForeign(manifest, 'mine.js')).toThrow(words)
})
