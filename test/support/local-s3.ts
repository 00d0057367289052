/**
 * An S3 server on this machine, with the `aws` program that speaks to it: moto and awscli in `.cache/s3-venv` (see .ci/run).
 * It keeps everything in memory and ends with whoever started it.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

const BIN = path.resolve(import.meta.dirname, '../../.cache/s3-venv/bin')

/** Any free port; the end of stdin is the end of the server. */
const SERVER = `
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
`

export const hasLocalS3 = (): boolean => existsSync(path.join(BIN, 'aws'))

/** @returns the environment of a program that is to use it, and `stop` */
export async function startLocalS3(): Promise<{
  readonly environment: Readonly<Record<string, string>>
  stop(): Promise<void>
}> {
  const child = spawn(path.join(BIN, 'python'), ['-c', SERVER], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const port = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve)
    child.once('exit', (code) => reject(new Error(`the S3 server ended with ${code}`)))
  })
  return {
    environment: {
      PATH: `${process.env['PATH']}:${BIN}`,
      AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_DEFAULT_REGION: 'us-east-1',
      // nothing of the person's own, and no question to the machine's network
      AWS_CONFIG_FILE: '/dev/null',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    stop: async () => {
      child.stdin.end()
      await ended
    },
  }
}
