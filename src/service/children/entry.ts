/**
 * Where the built entry points of child processes are. Children always run the build in `dist/`, also when the parent is a
 * test that runs the sources.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '#base/util/package-root.js'

/** Absolute path of a built module, for example `inference/host/main.js`. */
export function builtModule(name: string): string {
  return join(packageRoot(), 'dist', 'src', name)
}

/**
 * V8 flags of an engine host: one thread for collecting garbage and compiling code in the background. By default there are four, no
 * less urgent than the model's own, and a thread that only begins (a first long text, a first grammar) sets them all to work.
 *
 * And no full collection before there are 256 MB to look after: V8 counts what a step returns, megabytes in arrays of their own,
 * against a heap of ten, and marked all of it every third step of 16 streams; scavenging is enough for them.
 */
export const ENGINE_FLAGS = ['--v8-pool-size=1', '--initial-old-space-size=256']

/** Node flags that make a child die with its parent, however the parent dies. */
export function dieWithParentFlags(): string[] {
  return ['--import', pathToFileURL(builtModule('service/children/die-with-parent.js')).href]
}
