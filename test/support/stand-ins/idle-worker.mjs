/**
 * A training worker for tests of the pool: each attempt is over at once, and it says that it holds STAND_IN_RESIDENT_BYTES. With
 * STAND_IN_HELD_BYTES it holds as much memory instead, and its attempt never ends; with STAND_IN_IN_CHILD=1 a process that it starts does.
 */
import { spawn } from 'node:child_process'

const idle = { type: 'idle', resident_bytes: Number(process.env.STAND_IN_RESIDENT_BYTES ?? 1000) }
const heldBytes = Number(process.env.STAND_IN_HELD_BYTES ?? 0)
const isInChild = process.env.STAND_IN_IN_CHILD === '1'
const held = Buffer.alloc(isInChild ? 0 : heldBytes, 1)
if (isInChild) {
  // ends with this process: its input does
  const script = `const held = Buffer.alloc(${heldBytes}, 1); process.stdin.resume().on('end', () => process.exit(held[0]))`
  spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'ignore', 'ignore'] })
}
process.on('message', ({ attempt }) => {
  if (attempt === 99) process.exit(7)
  process.send(idle)
})
if (heldBytes === 0) process.send(idle)
else setInterval(() => held[0], 1000)
