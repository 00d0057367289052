/**
 * Bundles what the package runs into `dist/bundles`: the command line, the library's three modules and every entry point of a child process or
 * thread, with the code that they share in chunks. Packages stay outside, and what is imported when it is needed is a chunk of its own.
 *
 * One file is read where there were hundreds, so that a process starts in two thirds of the time. What is new is written beside what is there and
 * then takes its place: a build that fails leaves the old bundles. A server that runs from this checkout is started again, as its chunks are gone.
 */
import { renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = path.resolve(import.meta.dirname, '..')
const TARGET = path.join(ROOT, 'dist/bundles')

const { build } = await import('esbuild').catch((cause) => {
  throw new Error('the packages that the code is bundled with are missing: run npm ci', { cause })
})
const compiled = (name) => import(pathToFileURL(path.join(ROOT, 'dist/src', name)).href)
const { ENTRY_POINTS } = await compiled('base/processes/entry.js')
const { INSTALLED } = await compiled('plugins/index.js')
const ofPlugins = INSTALLED.plugins.flatMap(({ processes = [], trainers = [] }) => [
  ...processes,
  ...trainers.map(({ module }) => module),
])

const source = (name) => path.join('src', name.replace(/\.js$/, '.ts'))
const entryPoints = [
  { in: 'commands/main.ts', out: 'main' },
  { in: 'src/index.ts', out: 'index' },
  { in: 'src/rl.ts', out: 'rl' },
  { in: 'src/plugin.ts', out: 'plugin' },
  // what kill tests run as a server; no part of the package
  { in: 'src/service/test-door.ts', out: 'test-door' },
  { in: 'src/plugins/index.ts', out: 'plugins' },
  ...[...ENTRY_POINTS, ...ofPlugins].map((name) => ({
    in: source(name),
    out: name.replace(/\.js$/, ''),
  })),
]

const fresh = `${TARGET}-new`
rmSync(fresh, { recursive: true, force: true })
await build({
  absWorkingDir: ROOT,
  entryPoints,
  outdir: fresh,
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  packages: 'external',
  // names of errors are those of their classes
  keepNames: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'none',
  charset: 'utf8',
  logLevel: 'warning',
})
rmSync(TARGET, { recursive: true, force: true })
renameSync(fresh, TARGET)
