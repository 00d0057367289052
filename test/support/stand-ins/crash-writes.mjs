/**
 * Counts the writes of a transition of `crash-at-write.mjs`, one at a time in a process: a statement that changes the database, a commit, or a
 * call that changes the file system.
 */
import streams from 'node:fs'
import fs, { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { openSqlite } from '../../../dist/src/service/storage/sqlite.js'

/** Null where nothing is counted. */
let counted = null

function tap(object, method, isWrite = () => true) {
  const original = object[method]
  object[method] = function tapped(...args) {
    if (counted !== null && isWrite.call(this, ...args)) {
      counted.writes += 1
      counted.onWrite(counted.writes)
    }
    return original.apply(this, args)
  }
}

const statement = openSqlite(':memory:').prepare('select 1')
const CHANGES = /^\s*(?:insert|update|delete|replace|commit)/i
for (const method of ['run', 'all']) {
  tap(Object.getPrototypeOf(statement), method, function isChange() {
    return CHANGES.test(this.source)
  })
}
for (const method of ['rename', 'rm', 'mkdir', 'writeFile', 'link', 'copyFile', 'chmod']) tap(fs, method)
for (const method of ['write', 'writev']) tap(streams, method)
syncBuiltinESMExports()
const handle = await open('/dev/null')
for (const method of ['write', 'writeFile', 'sync']) tap(Object.getPrototypeOf(handle), method)
await handle.close()

/** @param onWrite is told before each write how many there were with it */
export async function countWrites(transition, onWrite) {
  const own = { writes: 0, onWrite }
  counted = own
  try {
    return { result: await transition(), writes: own.writes }
  } finally {
    counted = null
  }
}
