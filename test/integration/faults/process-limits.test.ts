/**
 * A process that the system lets have few files and connections open: the service does not start below what it needs and says so, and
 * refuses what is beyond the limit later, as something to try again.
 */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type CliProcess, cli, createHome, startCli } from '../../support/service/cli-process.js'
import { until } from '../../support/until.js'

const SERVE = ['serve', '--json', '--port', '0', '--base-model', 'trainyard/tiny-random', '--log-level', 'error']
let home: ReturnType<typeof createHome>
let server: CliProcess | null

beforeEach(() => {
  home = createHome()
  server = null
})
afterEach(async () => {
  server?.child.kill('SIGKILL')
  await server?.finished
  home.remove()
})

/** The hard limit too: Node raises the other one to it. */
const limited = (openFiles: number) => ({
  home: home.path,
  wrapper: ['bash', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'limited'],
})

describe.skipIf(process.platform !== 'linux')('few open files', { timeout: 280_000 }, () => {
  it.each([64, 128, 300])('%i are too few to load the service, which says so', async (openFiles) => {
    const { exitCode, stderr } = await cli(SERVE, limited(openFiles))
    expect(exitCode).not.toBe(0)
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: 'too_many_open_files', hint: expect.stringContaining('ulimit -n') },
    })
  })

  it('512 serve, and what is beyond them is refused for now', async () => {
    server = startCli(SERVE, limited(512))
    const ready = JSON.parse(await server.waitForStdout(/\n/)) as { url: string; api_key_file: string }
    const key = readFileSync(ready.api_key_file, 'utf8').trim()
    const { hostname, port } = new URL(ready.url)
    const answers: string[] = []
    const sockets = Array.from({ length: 330 }, () => connect(Number(port), hostname))
    for (const socket of sockets) {
      socket.on('error', () => undefined)
      socket.setEncoding('utf8').on('data', (text: string) => answers.push(text))
    }
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    // with each a file begins that is being written: more than there may be beside the connections
    const head = `POST /v1/files?filename=rows.jsonl HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 4`
    for (const socket of sockets) socket.write(`${head}\r\n\r\n{}`)
    await until(() => answers.length > 0, 'an upload that is refused')
    for (const socket of sockets) socket.write('\n\n')
    await until(() => answers.some((text) => text.startsWith('HTTP/1.1 200')), 'an upload that is taken')
    const refused = answers.filter((text) => text.startsWith('HTTP/1.1 5'))
    expect(refused.length).toBeGreaterThan(0)
    for (const text of refused) {
      expect(text).toMatch(/^HTTP\/1\.1 503 /)
      expect(text).toMatch(/\r\nretry-after: \d+\r\n/i)
    }
    expect(refused.some((text) => text.includes('too_many_open_files'))).toBe(true)
    for (const socket of sockets) socket.destroy()
    const again = async () =>
      fetch(`${ready.url}/v1/files?filename=again.jsonl`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: '{}\n',
      }).then(
        ({ status }) => status === 200,
        () => false,
      )
    await until(again, 'an upload after the others')
  })
})
