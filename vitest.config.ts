/**
 * Vitest projects by what a test needs: unit (nothing), integration (disk, ONNX Runtime), ui (a browser), e2e (the binary, a port).
 *
 * Tests run the TypeScript sources; `#layer/file.js` is mapped to `src/`. Child processes run the build in `dist/`,
 * which is why `npm test` builds first.
 */
import { defineConfig } from 'vitest/config'

const root = import.meta.dirname
const resolve = { alias: [{ find: /^#(.*)\.js$/, replacement: `${root}/src/$1.ts` }] }
// Times end what hangs: they are far above what anything needs on a machine that is busy with something else.
const serial = { pool: 'forks' as const, fileParallelism: false, testTimeout: 300_000, hookTimeout: 300_000 }

export default defineConfig({
  test: {
    teardownTimeout: 120_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      {
        resolve,
        test: {
          name: 'unit',
          include: ['test/{unit,contract,architecture}/**/*.test.ts'],
          pool: 'forks',
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      { resolve, test: { name: 'integration', include: ['test/integration/**/*.test.ts'], ...serial } },
      { resolve, test: { name: 'ui', include: ['test/ui/**/*.test.ts'], ...serial } },
      { resolve, test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], ...serial, testTimeout: 600_000 } },
    ],
  },
})
