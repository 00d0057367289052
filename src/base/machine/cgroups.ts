/**
 * Control groups that may limit this process: its own and all above it, in version 1 and 2.
 *
 * Knows where they lie, and nothing of what they limit. Source: cgroups(7). A limit holds for all groups below it, and a container
 * may see its own group as the root: so every group from the root to what `proc` says is looked at.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Cgroup {
  readonly version: 1 | 2
  /** Text of a file of this group; null where it has no such file. */
  read(name: string): string | null
}

/**
 * @param controller that a version 1 hierarchy must have
 * @param root where `proc` and `sys` are looked for
 * @returns none where this is not Linux
 */
export function cgroupsOf(controller: string, root: string): readonly Cgroup[] {
  const lines = textOf(join(root, 'proc/self/cgroup'))?.split('\n') ?? []
  return lines.flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (controllers === undefined || path === undefined) return []
    if (controllers !== '' && !controllers.split(',').includes(controller)) return []
    const parts = path.split('/').filter((part) => part !== '')
    return Array.from({ length: parts.length + 1 }, (_, count): Cgroup => {
      const folder = join(root, 'sys/fs/cgroup', controllers, parts.slice(0, count).join('/'))
      return { version: controllers === '' ? 2 : 1, read: (name) => textOf(join(folder, name)) }
    })
  })
}

/** @returns null where there is no such file */
export function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // no such group, or not Linux
    return null
  }
}
