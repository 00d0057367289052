/**
 * Prints the run's last line, `tests: N passed, N failed, N skipped`, which continuous integration reads.
 *
 * A test file that fails to load counts as one failure, so that a broken import can never look green. Names of files with failures are written
 * where FAILED_FILES says, a line each; none are where something failed that belongs to no file.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    const failed: string[] = []
    for (const module of modules) {
      if (module.errors().length > 0) count.failed += 1
      if (module.state() === 'failed') failed.push(path.relative(process.cwd(), module.moduleId))
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (state === 'passed') count.passed += 1
        else if (state === 'failed') count.failed += 1
        else count.skipped += 1
      }
    }
    const place = process.env['FAILED_FILES']
    if (place !== undefined)
      writeFileSync(place, unhandledErrors.length > 0 ? '' : failed.map((file) => `${file}\n`).join(''))
    // Printed after the default reporter's own summary, which is written synchronously in the same hook.
    setImmediate(() =>
      process.stdout.write(`tests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`),
    )
  }
}
