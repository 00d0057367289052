/**
 * The kills, crashes and fuzzing of each day, as many as a night has time for. What the environment says already stands.
 */
import { describe } from 'vitest'

const MANY = {
  TRAINYARD_KILLS: '100',
  LOOP_KILLS: '100',
  KILL_POINTS: 'all',
  CRASH_POINTS: 'all',
  CRASH_KILLS: 'all',
  FUZZ_REQUESTS: '50000',
  SCHEMATHESIS_EXAMPLES: '30',
}
for (const [name, value] of Object.entries(MANY)) process.env[name] ??= value

// a block of its own for each, or its hooks would be those of all
const FILES = {
  servers: () => import('../integration/servers/killed-servers.test.js'),
  points: () => import('../integration/workers/killed-anywhere.test.js'),
  loops: () => import('../integration/workers/killed-loop.test.js'),
  crashes: () => import('../integration/storage/crashes.test.js'),
  requests: () => import('../integration/api/fuzz/fuzz.test.js'),
  workers: () => import('../integration/api/fuzz/workers.test.js'),
  description: () => import('../e2e/schemathesis.test.js'),
}
for (const [name, load] of Object.entries(FILES)) {
  describe(name, async () => {
    await load()
  })
}
