/**
 * A port for a server that is stopped and started again. One that the system chose, `--port 0`, may be given to somebody else in
 * between, be it as the other end of a connection; those below its range of such ports are given to nobody.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'

const FIRST = 21_000
const COUNT = 10_000

export async function unassignedPort(): Promise<number> {
  for (let i = 0; i < COUNT; i += 1) {
    const port = FIRST + ((process.pid * 7 + i) % COUNT)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
      server.close()
      await once(server, 'close')
      return port
    } catch {
      // somebody has it
    }
  }
  throw new Error('no port is free')
}
