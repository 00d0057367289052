/**
 * Ports for a server that is stopped and started again, or that is told all of its ports before it has one. Those that the system chooses,
 * `--port 0`, may be given to somebody else in between, be it as the other end of a connection; those below its range of such ports are given
 * to nobody.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'

const FIRST = 21_000
const COUNT = 10_000
/** No port is handed out twice: who asked for one may not have taken it yet. */
let tried = 0

export async function unassignedPort(): Promise<number> {
  return (await unassignedPorts(1))[0] as number
}

/** @param count of ports: of the two test files that run side by side each has a half of them to itself */
export async function unassignedPorts(count: number): Promise<number[]> {
  const half = COUNT / 2
  const firstHere = FIRST + (Number(process.env['VITEST_POOL_ID'] ?? 0) % 2) * half
  const ports: number[] = []
  for (let i = 0; i < half && ports.length < count; i += 1) {
    const port = firstHere + ((process.pid * 16 + tried++) % half)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
      server.close()
      await once(server, 'close')
      ports.push(port)
    } catch {
      // somebody has it
    }
  }
  if (ports.length < count) throw new Error('no port is free')
  return ports
}
