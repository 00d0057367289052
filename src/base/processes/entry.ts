/**
 * Where the built entry points of child processes and threads are. They always run the build in `dist/`, also when their parent is
 * a test that runs the sources.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '#base/util/package-root.js'

/** Absolute path of a built module, for example of `inference/host/main.js`; what is an absolute path stays one. */
export function builtModule(name: string): string {
  return resolve(packageRoot(), 'dist', 'src', name)
}

/** Node flags that make a child die with its parent, however the parent dies. */
export function dieWithParentFlags(): string[] {
  return ['--import', pathToFileURL(builtModule('base/processes/die-with-parent.js')).href]
}
