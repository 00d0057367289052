/**
 * What this process and all that it started have computed, also those that have ended. By `/proc`, so on Linux alone.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Ticks of the kernel's clock in a second, on every Linux that Node runs on. */
const TICKS = 100

/** @returns seconds of processors; NaN where nobody tells */
export function processorSeconds() {
  const processes = new Map()
  try {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const read = readStat(pid)
      if (read !== null) processes.set(Number(pid), read)
    }
  } catch {
    return Number.NaN
  }
  let ticks = 0
  const below = [process.pid]
  for (const pid of below) {
    ticks += processes.get(pid)?.ticks ?? 0
    for (const [child, { parent }] of processes) if (parent === pid) below.push(child)
  }
  return ticks / TICKS
}

/** Fields behind the name, which may hold blanks: state, parent, …; times of its own and of children that have ended are the 14th to 17th of all. */
function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0)
    return { parent: Number(fields[1]), ticks }
  } catch {
    // it has ended in the meantime
    return null
  }
}
