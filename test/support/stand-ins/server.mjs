/**
 * A server in a process of its own for tests that kill it. Arguments: the options as JSON, the level of its log (default silent),
 * the milliseconds it drains for after SIGTERM (default 2000).
 *
 * Prints one line of JSON when it listens.
 */
import { join } from 'node:path'

const root = join(import.meta.dirname, '../../../dist')
const { createTestedService } = await import(`${root}/bundles/test-door.js`)
const { INSTALLED } = await import(`${root}/bundles/plugins.js`)
const { createLogger } = await import(`${root}/src/base/logging/logger.js`)
const options = JSON.parse(process.argv[2] ?? '{}')
try {
  const settings = {
    port: 0,
    logger: createLogger({ level: process.argv[3] ?? 'silent' }),
    baseModels: ['trainyard/tiny-random'],
    ...options,
    tuning: { ...options.tuning, jobs: { sweepMs: 50, backoffMs: 50, ...options.tuning?.jobs } },
  }
  const service = await createTestedService(settings, INSTALLED)
  // before anybody can know that it listens, and ask it to stop
  process.once('SIGTERM', () => service.close(Number(process.argv[4] ?? 2000)).then(() => process.exit(0)))
  process.stdout.write(
    `${JSON.stringify({ url: service.url, apiKey: service.createdApiKey, enginePids: service.enginePids() })}\n`,
  )
} catch (error) {
  process.stdout.write(`${JSON.stringify({ error: error.code ?? String(error) })}\n`)
  process.exit(1)
}
