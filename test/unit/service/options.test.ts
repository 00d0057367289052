/** Settings of a service: defaults from one place, bounds that hold for a library's callers as for the command line. */
import { describe, expect, test } from 'vitest'
import { jobsAtOnce } from '#base/machine/cores.js'
import { settings } from '#cli/config/schema.js'
import { SERVICE_DEFAULTS, SERVICE_SETTINGS, type ServiceSettingName } from '#contract/settings/service.js'
import { resolveSettings } from '#service/options.js'
import { expectCode } from '../../support/expect-code.js'

describe('resolveSettings', () => {
  test('absent settings have the defaults the command line shows', () => {
    expect(resolveSettings({ dataDir: '/data' })).toMatchObject({
      host: settings.host.default,
      port: settings.port.default,
      // the cores decide, which the help says in words
      trainWorkers: jobsAtOnce(),
      maxConcurrentSequences: settings['max-sequences'].default,
      maxPendingRequests: SERVICE_DEFAULTS.maxPendingRequests,
      threads: null,
      maxContextLength: null,
    })
  })

  test.each([
    [{ port: 65_536 }, 'port must be a whole number from 0 to 65535, got 65536'],
    [{ port: -1 }, 'port must be a whole number from 0 to 65535, got -1'],
    [{ threads: 0 }, 'threads must be a whole number from 1 to 1024, got 0'],
    [{ trainWorkers: 1.5 }, 'trainWorkers must be a whole number from 0 to 64, got 1.5'],
    [{ requestsPerMinute: 0 }, 'requestsPerMinute must be a whole number from 1 to 1000000000, got 0'],
    [{ maxChatBodyBytes: 1 }, 'maxChatBodyBytes must be a whole number from 65536 to 268435456, got 1'],
    [{ maxPendingRequests: Number.NaN }, 'maxPendingRequests must be a whole number from 1 to 1000000, got NaN'],
  ])('%j is refused by name', async (given, message) => {
    await expectCode(() => resolveSettings({ dataDir: '/data', ...given }), 'invalid_setting', message)
  })

  test('sizes are read with their units, within the same bounds', () => {
    const { parse } = settings['max-chat-body']
    expect([parse('64MB'), parse('1.5 mb'), parse('100000'), parse('128KiB')]).toEqual([
      67108864, 1572864, 100000, 131072,
    ])
    for (const text of ['1KB', '1TB', 'lots', '-5MB', '']) {
      expect(() => parse(text), text).toThrow('a size such as 500KB, 64MB or 1GB, from 64KB to 256MB')
    }
  })

  test('the command line has the same defaults and bounds', () => {
    const resolved: Readonly<Record<string, unknown>> = resolveSettings({ dataDir: '/data' })
    for (const name of Object.keys(SERVICE_SETTINGS) as ServiceSettingName[]) {
      if (['dataDir', 'baseModels', 'plugins', 'trainWorkers'].includes(name)) continue
      expect(resolved[name], name).toEqual(settings[SERVICE_SETTINGS[name].key].default)
    }
    expect(() => settings.port.parse(String(SERVICE_SETTINGS.port.bounds.max + 1))).toThrow('from 0 to 65535')
    expect(settings['max-sequences'].parse(String(SERVICE_SETTINGS.maxConcurrentSequences.bounds.max))).toBe(1024)
  })
})
