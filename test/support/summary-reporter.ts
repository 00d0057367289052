/**
 * Prints the run's last line, `tests: N passed, N failed, N skipped`, which continuous integration reads.
 *
 * A test file that fails to load counts as one failure, so that a broken import can never look green.
 */
import type { Reporter, TestModule } from 'vitest/node'

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    for (const module of modules) {
      if (module.errors().length > 0) count.failed += 1
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (state === 'passed') count.passed += 1
        else if (state === 'failed') count.failed += 1
        else count.skipped += 1
      }
    }
    // Printed after the default reporter's own summary, which is written synchronously in the same hook.
    setImmediate(() =>
      process.stdout.write(`tests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`),
    )
  }
}
