/**
 * Prints the run's last line, `tests: N passed, N failed, N skipped`, which continuous integration reads.
 *
 * A test file that fails to load counts as one failure, so that a broken import can never look green. Names of files with failures are written
 * where FAILED_FILES says, a line each; none are where something failed that belongs to no file. What failed, with the beginning of why, is
 * added where FAILURES says: of thousands of lines the last are kept. Where SLOWEST_FILES names a number, so many files are listed, and how
 * long each project had one running: `test/long-files.json` is made of them.
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

/** What of a file's time a worker was taken: its imports, too. */
const secondsOf = (module: TestModule): number => {
  const { prepareDuration, collectDuration, duration } = module.diagnostic()
  return (prepareDuration + collectDuration + duration) / 1000
}

function slowestOf(modules: readonly TestModule[], most: number): string {
  const rows = modules.map((module) => ({
    seconds: secondsOf(module),
    project: module.project.name,
    file: path.relative(process.cwd(), module.moduleId),
  }))
  const line = ({ seconds, project, file }: (typeof rows)[number]): string =>
    `${seconds.toFixed(0).padStart(6)} s  ${project.padEnd(11)} ${file}\n`
  const projects = [...new Set(rows.map(({ project }) => project))].map((project) => {
    const own = rows.filter((row) => row.project === project)
    return line({ project, seconds: own.reduce((sum, { seconds }) => sum + seconds, 0), file: `${own.length} files` })
  })
  const slowest = rows.sort((a, b) => b.seconds - a.seconds).slice(0, most)
  return `files by project, and the slowest:\n${projects.join('')}${slowest.map(line).join('')}`
}

const WHY_LINES = 12

/** A failure in the lines that end a log: where, and the beginning of why. */
const failureOf = (where: string, error: { readonly message?: string; readonly diff?: string } | undefined): string =>
  [where, ...[error?.message, error?.diff].flatMap((text = '') => text.split('\n').slice(0, WHY_LINES))].join('\n    ')

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    const failed: string[] = []
    const failures = unhandledErrors.map((error) => failureOf('in no test', error as Error))
    for (const module of modules) {
      const file = path.relative(process.cwd(), module.moduleId)
      if (module.errors().length > 0) count.failed += 1
      failures.push(...module.errors().map((error) => failureOf(file, error)))
      if (module.state() === 'failed') failed.push(file)
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result()
        if (state === 'failed') failures.push(failureOf(`${file} > ${test.fullName}`, errors?.[0]))
        if (state === 'passed') count.passed += 1
        else if (state === 'failed') count.failed += 1
        else count.skipped += 1
      }
    }
    const place = process.env['FAILED_FILES']
    if (place !== undefined)
      writeFileSync(place, unhandledErrors.length > 0 ? '' : failed.map((file) => `${file}\n`).join(''))
    const ledger = process.env['FAILURES']
    if (ledger !== undefined && failures.length > 0) appendFileSync(ledger, `${failures.join('\n')}\n`)
    // Printed after the default reporter's own summary, which is written synchronously in the same hook.
    const most = Number(process.env['SLOWEST_FILES'] ?? 0)
    const slowest = most > 0 ? slowestOf(modules, most) : ''
    setImmediate(() =>
      process.stdout.write(
        `${slowest}tests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`,
      ),
    )
  }
}
