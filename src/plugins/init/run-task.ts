/**
 * Runs a task that was just written, in its folder, with this package as the one it imports.
 */
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { packageRoot } from '#base/util/package-root.js'
import { runInFolder } from '#cli/local/user-program.js'
import { OutcomeError } from '#cli/terminal/errors.js'

/** @throws {OutcomeError} `task_failed` where it ends with an error, which it has printed */
export async function runTask(folder: string, file: string, options: Parameters<typeof runInFolder>[2]): Promise<void> {
  const modules = join(folder, 'node_modules')
  await mkdir(modules, { recursive: true })
  await symlink(packageRoot(), join(modules, 'trainyard'), 'junction')
  const code = await runInFolder(folder, file, options)
  options.signal.throwIfAborted()
  if (code === 0) return
  throw new OutcomeError('job_failed', 'task_failed', `${file} ended with ${code}; what it says stands above`, {
    hint: `run it again in ${folder}: node ${file}`,
  })
}
