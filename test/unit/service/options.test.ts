/** Settings of a service: defaults from one place, bounds that hold for a library's callers as for the command line. */
import { describe, expect, test } from 'vitest'
import { SERVICE_BOUNDS, SERVICE_DEFAULTS } from '#api/settings/service.js'
import { settings } from '#cli/config/schema.js'
import { resolveSettings } from '#service/options.js'
import { expectCode } from '../../support/expect-code.js'

describe('resolveSettings', () => {
  test('absent settings have the defaults the command line shows', () => {
    expect(resolveSettings({ dataDir: '/data' })).toMatchObject({
      host: settings.host.default,
      port: settings.port.default,
      trainWorkers: settings['train-workers'].default,
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
    [{ maxPendingRequests: Number.NaN }, 'maxPendingRequests must be a whole number from 1 to 1000000, got NaN'],
  ])('%j is refused by name', async (given, message) => {
    await expectCode(() => resolveSettings({ dataDir: '/data', ...given }), 'invalid_setting', message)
  })

  test('the command line has the same bounds', () => {
    expect(() => settings.port.parse(String(SERVICE_BOUNDS.port.max + 1))).toThrow('from 0 to 65535')
    expect(settings['max-sequences'].parse(String(SERVICE_BOUNDS.maxConcurrentSequences.max))).toBe(1024)
  })
})
