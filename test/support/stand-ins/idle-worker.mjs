/**
 * A training worker for tests of the pool: each attempt is over at once, and it says that it holds STAND_IN_RESIDENT_BYTES. With
 * STAND_IN_HELD_BYTES it holds as much memory instead, and its attempt never ends.
 */
const idle = { type: 'idle', resident_bytes: Number(process.env.STAND_IN_RESIDENT_BYTES ?? 1000) }
const held = Buffer.alloc(Number(process.env.STAND_IN_HELD_BYTES ?? 0), 1)
process.on('message', ({ attempt }) => {
  if (attempt === 99) process.exit(7)
  process.send(idle)
})
if (held.length === 0) process.send(idle)
else setInterval(() => held[0], 1000)
