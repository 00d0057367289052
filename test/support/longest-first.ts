/**
 * Begins with the files that take longest, so that no core waits for one at the end of a group. A fresh checkout has no times of an earlier run,
 * and the length of a file says little: one of nine lines runs four others on PostgreSQL.
 *
 * Files of a project that share a process stay together, or each would start one.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Seconds by file, as `.ci/run` printed them; what is not named is short. */
const LONG = JSON.parse(readFileSync(path.join(import.meta.dirname, '../long-files.json'), 'utf8')) as Readonly<
  Record<string, number>
>

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const root = this.ctx.config.root
    const secondsOf = ({ moduleId }: TestSpecification) =>
      LONG[path.relative(root, moduleId).replaceAll(path.sep, '/')] ?? 0
    const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder
    const sharedBy = ({ project }: TestSpecification) => (project.config.isolate ? '' : project.name)
    return (await super.sort(files)).sort(
      (a, b) => groupOf(a) - groupOf(b) || sharedBy(a).localeCompare(sharedBy(b)) || secondsOf(b) - secondsOf(a),
    )
  }
}
