#!/usr/bin/env node
/** Launcher: refuses an old Node or a missing build with one clear line, then runs the compiled command line. */
import { existsSync } from 'node:fs'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`error: trainyard needs Node 20.19 or newer, this is ${process.versions.node}\n`)
  process.exit(1)
}
const main = new URL('../dist/bundles/main.js', import.meta.url)
if (!existsSync(main)) {
  process.stderr.write('error: trainyard is not built yet\nhint: npm run build\n')
  process.exit(1)
}
await import(main.href)
