/**
 * S3 servers on this machine (see .ci/run): moto in `.cache/s3-venv`, with the `aws` program that speaks to it, which keeps everything in
 * memory and checks neither keys nor digests; SeaweedFS in `.cache/seaweed-venv`, a server that people run. Both end with whoever
 * started them.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { AwsClient } from 'aws4fetch'
import { unassignedPorts } from './service/unassigned-port.js'
import { until } from './until.js'

const BIN = path.resolve(import.meta.dirname, '../../.cache/s3-venv/bin')
const WEED = path.resolve(import.meta.dirname, '../../.cache/seaweed-venv/bin/weed')

/** Any free port; the end of stdin is the end of the server. */
const SERVER = `
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
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

/** A server to test a client with. */
export interface S3Server {
  readonly endpoint: string
  /** What a program that is to use it needs in its environment, without the endpoint. */
  readonly environment: Readonly<Record<string, string>>
  makeBucket(name: string): Promise<void>
  /** @param path bucket and key */
  putObject(path: string, body: string): Promise<void>
  stop(): Promise<void>
}

export interface S3ServerKind {
  readonly name: string
  readonly isThere: boolean
  /** Refuses other keys than its own. */
  readonly checksKeys: boolean
  start(): Promise<S3Server>
}

const KEYS = { AWS_ACCESS_KEY_ID: 'trainyard', AWS_SECRET_ACCESS_KEY: 'a-secret-of-tests', AWS_REGION: 'us-east-1' }

export const S3_SERVERS: readonly S3ServerKind[] = [
  { name: 'moto', isThere: hasLocalS3(), checksKeys: false, start: startMoto },
  { name: 'SeaweedFS', isThere: existsSync(WEED), checksKeys: true, start: startSeaweed },
]

async function startMoto(): Promise<S3Server> {
  const { environment, stop } = await startLocalS3()
  return serverAt(environment['AWS_ENDPOINT_URL'] ?? '', stop)
}

async function startSeaweed(): Promise<S3Server> {
  const folder = await mkdtemp(path.join(tmpdir(), 'trainyard-seaweed-'))
  const identity = {
    name: 'tests',
    credentials: [{ accessKey: KEYS.AWS_ACCESS_KEY_ID, secretKey: KEYS.AWS_SECRET_ACCESS_KEY }],
    actions: ['Admin', 'Read', 'List', 'Tagging', 'Write'],
  }
  await writeFile(path.join(folder, 's3.json'), JSON.stringify({ identities: [identity] }))
  const parts = ['master', 'volume', 'filer', 's3']
  const ports = await unassignedPorts(2 * parts.length)
  const flags = parts.flatMap((part, i) => [`-${part}.port=${ports[2 * i]}`, `-${part}.port.grpc=${ports[2 * i + 1]}`])
  const child = spawn(
    WEED,
    [
      'server',
      `-dir=${folder}`,
      '-ip=127.0.0.1',
      '-master.volumeSizeLimitMB=64',
      '-volume.max=100',
      '-filer',
      '-s3',
      `-s3.config=${path.join(folder, 's3.json')}`,
      '-s3.iam=false',
      // ports of their own, the same for every server: a second one would end
      '-s3.port.iceberg=0',
      '-s3.port.lance=0',
      ...flags,
    ],
    { stdio: 'ignore', cwd: folder },
  )
  const server = serverAt(`http://127.0.0.1:${ports[6]}`, async () => {
    await endOf(child)
    await rm(folder, { recursive: true, force: true, maxRetries: 20 })
  })
  try {
    await until(
      async () => {
        if (child.exitCode !== null) throw new Error(`SeaweedFS ended with ${child.exitCode}`)
        // buckets are had before there is a place for bytes
        await server.makeBucket('ready').catch(() => undefined)
        return server.putObject('ready/object', 'bytes').then(
          () => true,
          () => null,
        )
      },
      'SeaweedFS takes an object',
      120_000,
    )
  } catch (error) {
    await server.stop()
    throw error
  }
  return server
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

function serverAt(endpoint: string, stop: () => Promise<void>): S3Server {
  const client = new AwsClient({
    accessKeyId: KEYS.AWS_ACCESS_KEY_ID,
    secretAccessKey: KEYS.AWS_SECRET_ACCESS_KEY,
    service: 's3',
    region: KEYS.AWS_REGION,
    retries: 0,
  })
  return {
    endpoint,
    environment: KEYS,
    makeBucket: async (name) => {
      const answer = await client.fetch(`${endpoint}/${name}`, { method: 'PUT' })
      if (!answer.ok) throw new Error(`no bucket: ${answer.status} ${await answer.text()}`)
    },
    putObject: async (path, body) => {
      const answer = await client.fetch(`${endpoint}/${path}`, { method: 'PUT', body })
      if (!answer.ok) throw new Error(`no object: ${answer.status} ${await answer.text()}`)
    },
    stop,
  }
}
