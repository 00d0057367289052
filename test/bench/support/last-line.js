/** A program of its own that measures: what it prints last, as JSON. It has large memory pages, as training workers do. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { withHugePages } from '../../../dist/src/base/processes/malloc-tunables.js'

export async function lastLine(program, args) {
  const options = { maxBuffer: 1e8, env: withHugePages(process.env) }
  const { stdout } = await promisify(execFile)(program, args.map(String), options)
  return JSON.parse(stdout.trim().split('\n').at(-1))
}
