/**
 * A training worker for tests of the pool: each attempt is over at once, and it says that it holds STAND_IN_RESIDENT_BYTES.
 */
const idle = { type: 'idle', resident_bytes: Number(process.env.STAND_IN_RESIDENT_BYTES ?? 1000) }
process.on('message', ({ attempt }) => {
  if (attempt === 99) process.exit(7)
  process.send(idle)
})
process.send(idle)
