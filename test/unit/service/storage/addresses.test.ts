/**
 * Addresses go to whoever opens their scheme, which is loaded for no other; one that nobody opens is refused by its scheme.
 */
import { describe, expect, test } from 'vitest'
import { INSTALLED } from '#plugins/index.js'
import { addressKindsOf } from '#service/plugin.js'
import { readAddress } from '#service/storage/addresses.js'

const asked: string[] = []
const kinds = ['near', 'far'].map((scheme) => ({
  schemes: [scheme, `${scheme}s`],
  example: `${scheme}://place`,
  read: async (address: string, environment: Readonly<Record<string, string | undefined>>) => {
    asked.push(scheme)
    return `${address} ${environment['ZONE']}`
  },
}))

describe('an address', () => {
  test.each(['far://x', 'fars://x'])('goes to who opens its scheme, and to nobody else: %s', async (address) => {
    asked.length = 0
    expect(await readAddress('database', address, kinds, { ZONE: 'a' })).toBe(`${address} a`)
    expect(asked).toEqual(['far'])
  })

  test.each([
    ['other://me:hunter2@x', 'must be an address like near://place or far://place, got scheme "other"'],
    ['me:hunter2@x', 'must be an address like near://place or far://place, got a text without a scheme'],
    ['', 'got a text without a scheme'],
    ['NEAR://x', 'got a text without a scheme'],
  ])('that nobody opens is refused with the known ones, and not repeated: %s', async (address, words) => {
    const refusal = readAddress('blob-store', address, kinds, {})
    await expect(refusal).rejects.toMatchObject({
      code: 'invalid_setting',
      param: 'blob-store',
      message: expect.stringContaining(words),
      hint: "for example --blob-store 'near://place'",
    })
    await expect(refusal).rejects.not.toThrow('hunter2')
  })

  test('is refused where no plugin opens any', async () => {
    await expect(readAddress('database', 'near://x', [], {})).rejects.toMatchObject({
      code: 'invalid_setting',
      message: 'database must be absent: no plugin is loaded that opens addresses, got scheme "near"',
    })
  })

  test('of the package: examples can be read, and a bucket has the name that the database remembers', async () => {
    const { databases, blobStores } = addressKindsOf(INSTALLED.plugins)
    for (const { read, example } of [...databases, ...blobStores]) expect((await read(example, {})).name).not.toBe('')
    const environment = { AWS_ENDPOINT_URL: 'http://127.0.0.1:9000' }
    expect((await readAddress('blob-store', 's3://data/yard/?cache=1GB', blobStores, environment)).name).toBe(
      's3://data/yard?endpoint=http://127.0.0.1:9000',
    )
  })
})
