/**
 * Runs transitions of `crash-at-write.mjs` one after the other, in one process: a line of standard input has what one of them is given, a line
 * of standard output what it printed. Nine tenths of the time of a process of its own would be its start.
 */
import { createInterface } from 'node:readline'

let count = 0
for await (const line of createInterface({ input: process.stdin })) {
  count += 1
  const said = await import(`./crash-at-write.mjs?${new URLSearchParams({ run: line, count: String(count) })}`).then(
    ({ outcome }) => outcome,
    (error) => ({ error: error.stack }),
  )
  process.stdout.write(`${JSON.stringify(said)}\n`)
}
