/**
 * Where the bundled entry points of child processes and threads are. They always run the build in `dist/`, also when their parent is
 * a test that runs the sources.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '#base/util/package-root.js'

/** Entry points of child processes and threads, as paths below `src/`; plugins have theirs. Each is bundled (`src/bundle.js`). */
export const ENTRY_POINTS = [
  'base/processes/die-with-parent.js',
  'inference/grammar/grammar-thread.js',
  'inference/host/adapters/adapter-thread.js',
  'inference/host/main.js',
  'inference/host/text-thread.js',
  'model/inspection/thread-main.js',
  'plugins/body-thread.js',
  'plugins/job-options.js',
  'service/processes/schema-check-main.js',
  'training/worker/heartbeat-thread.js',
  'training/worker/main.js',
  'training/worker/plan/check-rows.js',
  'training/worker/plan/main.js',
] as const

export type EntryPoint = (typeof ENTRY_POINTS)[number]

/** The folder of bundles below the package's own; each entry point is at its path below `src/`. */
const BUNDLES = 'dist/bundles'

/** An entry point of a plugin, or a module that a test starts in the place of one. */
export type StandIn = string & {}

/** Absolute path of an entry point's bundle; a stand-in of a test is at its absolute path. */
export function bundlePath(entry: EntryPoint | StandIn): string {
  return resolve(packageRoot(), BUNDLES, entry)
}

/** Node flags that make a child die with its parent, however the parent dies. */
export function dieWithParentFlags(): string[] {
  return ['--import', pathToFileURL(bundlePath('base/processes/die-with-parent.js')).href]
}
