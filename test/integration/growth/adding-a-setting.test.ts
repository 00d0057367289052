/**
 * A setting is added by one row: in a copy of the sources, whose types are checked and whose program is run. Flag, help, variable,
 * key of the config file, library option with its type and bounds all come from the row.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copySources, type SourceCopy } from '../../support/source-copy.js'

const ROW = `/** How long a bell rings. */
  bellMs: {
    key: 'bell-time',
    type: 'duration',
    default: 90_000,
    bounds: { min: 1000, max: HOUR },
    summary: 'how long a bell rings',
  },
  /** Which bell. */
  bell: { key: 'bell', type: 'choice', default: 'large', choices: ['large', 'small'], summary: 'which bell rings' },
  `

/** A use of it, as `service/assembly/` has: what is given and what comes out have the types of the row. */
const USE = `/** Rings. */
import { resolveSettings } from './options.js'

export function ring(): number {
  const settings = resolveSettings({ dataDir: '.', bellMs: 2000 })
  const bell: 'large' | 'small' = settings.bell
  return bell.length * settings.bellMs
}

// @ts-expect-error a number is wanted
export const wrongType = () => resolveSettings({ dataDir: '.', bellMs: '2s' })
// @ts-expect-error there is no such bell
export const wrongChoice = () => resolveSettings({ dataDir: '.', bell: 'huge' })
`

let copy: SourceCopy
let complaints = ''
beforeAll(async () => {
  copy = await copySources()
  await copy.insertBefore('src/contract/settings/service.ts', '/** Least severe log line to print.', ROW)
  await copy.write('src/service/ring.ts', USE)
  complaints = await copy.build()
})
afterAll(() => copy?.remove())

test('its types are those of the row', () => {
  expect(complaints).toBe('')
})

test('serve has its flag with help and default, and refuses a bad value', async () => {
  const help = await copy.run(['serve', '--help'])
  expect(help.stdout).toMatch(/--bell-time <duration> +how long a bell rings; default 90s\n/)
  expect(help.stdout).toMatch(/--bell <large\|small> +which bell rings\n/)
  const refused = await copy.run(['serve', '--bell-time', '2h'])
  expect(refused.stderr).toContain('--bell-time must be a duration such as 30s, 5m or 2h, from 1s to 60m, got "2h"')
  expect(refused.exitCode).not.toBe(0)
})

test('the environment and the config file set it', async () => {
  const topic = await copy.run(['help', 'environment'])
  expect(topic.stdout).toContain('--bell-time <duration>, TRAINYARD_BELL_TIME')
  expect(await copy.run(['config', 'set', 'bell', 'small'])).toMatchObject({ exitCode: 0 })
  const set = await copy.run(['config', 'list', '--json'], { TRAINYARD_BELL_TIME: '5m' })
  expect(JSON.parse(set.stdout)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ key: 'bell-time', value: '300000ms', source: 'env', origin: 'TRAINYARD_BELL_TIME' }),
      expect.objectContaining({ key: 'bell', value: 'small', source: 'file' }),
    ]),
  )
  const refused = await copy.run(['config', 'set', 'bell', 'huge'])
  expect(refused.stderr).toContain('bell must be one of large, small, got "huge"')
})

test('the library checks its bounds, and fills in its default', async () => {
  const used = await copy.evaluate(`
    import { resolveSettings } from './dist/src/service/options.js'
    import { ring } from './dist/src/service/ring.js'
    let message = ''
    try { resolveSettings({ dataDir: '.', bellMs: 999 }) } catch (error) { message = error.message }
    console.log(JSON.stringify([ring(), resolveSettings({ dataDir: '.' }).bellMs, message]))
  `)
  expect(used.stderr).toBe('')
  expect(JSON.parse(used.stdout)).toEqual([
    10_000,
    90_000,
    'bellMs must be a whole number from 1000 to 3600000, got 999',
  ])
})
