/**
 * Vitest projects by what a test needs: unit (nothing), integration (disk, ONNX Runtime), e2e (the binary, a port), alone (any of these, and
 * no other test beside it), ui (a browser).
 *
 * Tests run the TypeScript sources; `#layer/file.js` is mapped to `src/`. Child processes run the build in `dist/`,
 * which is why `npm test` builds first.
 */
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

const root = import.meta.dirname
const resolve = { alias: [{ find: /^#(.*)\.js$/, replacement: `${root}/src/$1.ts` }] }
// Times end what hangs: they are far above what anything needs on a machine that is busy with something else.
const slow = { pool: 'forks' as const, testTimeout: 300_000, hookTimeout: 300_000 }
const SIDE_BY_SIDE = { maxWorkers: 2, sequence: { groupOrder: 1 } }
const serial = { ...slow, fileParallelism: false }

/**
 * What runs one file at a time: it kills, stops or starves processes and waits for leases, measures memory or processor time, fills a disk,
 * opens a browser, or keeps both cores of a small machine busy by itself. Everything else runs two files at a time: a test has ports, folders
 * and databases of its own, and waits for conditions, so that another beside it is no more than a busy machine.
 */
const ALONE = [
  'test/integration/{children,devices,servers}/**/*.test.ts',
  'test/integration/engine-nodes/{engine-node,vllm}.test.ts',
  'test/integration/faults/!(deleting|malformed-connections|pipelined-requests|publishing).test.ts',
  'test/integration/workers/!(direct-reads|torch-worker).test.ts',
  'test/integration/api/{engine-faults,faults,real-children,resume}.test.ts',
  'test/integration/api/access/limits.test.ts',
  'test/integration/api/fuzz/**/*.test.ts',
  'test/integration/inference/{core-sharing,engine-memory}.test.ts',
  'test/integration/storage/{clock-jumps,crashes,disk-faults,s3-faults}.test.ts',
  'test/integration/storage/faults/**/*.test.ts',
  'test/integration/storage/postgres/{access,faults,full-disk,jobs}.test.ts',
  'test/integration/training/rollouts.test.ts',
  'test/e2e/{cli,demo,memory-limit,node-versions,privacy,proxy,terminal}.test.ts',
  'test/e2e/{deployment,servers}/**/*.test.ts',
]

export default defineConfig({
  test: {
    teardownTimeout: 120_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
    // first unit, then integration and e2e, then those that do not run side by side, file by file
    projects: [
      {
        resolve,
        test: {
          name: 'unit',
          include: ['test/{unit,contract,architecture}/**/*.test.ts'],
          pool: 'forks',
          maxWorkers: Math.max(2, availableParallelism() - 1),
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        resolve,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: ALONE,
          ...slow,
          ...SIDE_BY_SIDE,
        },
      },
      {
        resolve,
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: ALONE,
          ...slow,
          ...SIDE_BY_SIDE,
          testTimeout: 600_000,
        },
      },
      { resolve, test: { name: 'alone', include: ALONE, ...serial, testTimeout: 600_000 } },
      { resolve, test: { name: 'ui', include: ['test/ui/**/*.test.ts'], ...serial } },
    ],
  },
})
