/**
 * The placer against a stand-in that answers as Ray 2.60.0 did when it was asked (`test/goldens/ray-2.60.0.json`), over a real port.
 * `test/integration/workers/ray.test.ts` asks Ray itself.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { parseRayAddress } from '#plugins/ray/ray-address.js'
import { createRayClient } from '#plugins/ray/ray-client.js'
import { createRayPlacer, entrypointOf, type RayPlacer, workerPrefix } from '#plugins/ray/ray-placer.js'
import recorded from '../../../goldens/ray-2.60.0.json' with { type: 'json' }

interface Submission {
  readonly submission_id: string
  readonly entrypoint: string
}

const TOKEN = 'a-token'
const ADDRESS = 'ray://127.0.0.1:1?server=http://here:8642/&key-file=/etc/worker.key&max=3&gpus=1&resource.train=2'
const PLACEMENT = parseRayAddress(ADDRESS, null)
const PREFIX = workerPrefix(PLACEMENT)

let server: Server
/** What Ray has: id and status. */
let jobs: Map<string, string>
let calls: string[]
let submissions: Submission[]
let nowMs: number
let wanted: number
/** Whether it forgets no job. */
let isKeeping: boolean
let gone: string[]
/** Names of workers that had something to do. */
let worked: Set<string>
let placer: RayPlacer

/** A job of that status as Ray recorded it, under another id. */
function answerOf(id: string, status: string): object {
  const all = [...JSON.parse(recorded.list.body), ...JSON.parse(recorded.list_after.body)] as { status: string }[]
  return { ...all.find((job) => job.status === status), status, submission_id: id }
}

async function answer(request: IncomingMessage): Promise<{ readonly status: number; readonly body: string }> {
  const { method, url = '', headers } = request
  if (headers.authorization === undefined) return recorded.no_token
  if (headers.authorization !== `Bearer ${TOKEN}`) return recorded.wrong_token
  const body = await text(request)
  const [, id = '', isStop] = /^\/api\/jobs\/([^/]*)(\/stop)?$/.exec(url) ?? []
  if (method === 'GET') {
    const other = answerOf('trainyard-00000000-of-another-server', 'RUNNING')
    const list = [...jobs].map(([job, status]) => answerOf(job, status))
    return { status: 200, body: JSON.stringify([other, ...list]) }
  }
  calls.push(isStop === undefined ? `${method}${id === '' ? '' : ` ${id}`}` : `stop ${id}`)
  if (isStop !== undefined) return recorded.stop_pending
  if (method === 'DELETE') {
    if (isKeeping) return { status: 500, body: 'not now' }
    jobs.delete(id)
    return recorded.delete_ended
  }
  const submission = JSON.parse(body) as Submission
  submissions.push(submission)
  jobs.set(submission.submission_id, 'PENDING')
  return recorded.submit
}

beforeEach(async () => {
  server = createServer((request, response) => {
    void answer(request).then(({ status, body }) => response.writeHead(status).end(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ;[jobs, calls, submissions, gone, nowMs, wanted] = [new Map(), [], [], [], 0, 0]
  isKeeping = false
  worked = new Set()
  placer = place(TOKEN)
})
afterEach(() => server.close())

function place(token: string | null, url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`): RayPlacer {
  return createRayPlacer({
    placement: PLACEMENT,
    client: createRayClient(url, token),
    clock: { monotonicMs: () => nowMs },
    ids: systemIds,
    logger: createLogger({ level: 'silent' }),
    wanted: () => Promise.resolve(wanted),
    onGone: (name, reason) => {
      gone.push(`${name}: ${reason}`)
      return Promise.resolve(worked.has(name))
    },
  })
}

async function sweepAt(timeMs: number): Promise<readonly string[]> {
  nowMs = timeMs
  await placer.sweep()
  return placer.notes()
}
const idOf = (index: number): string => submissions[index]?.submission_id ?? ''

describe('workers on a Ray cluster', () => {
  it('are submitted as they are missing, at most so many, with nothing secret and what each needs', async () => {
    wanted = 2
    expect(await sweepAt(0)).toEqual([])
    await sweepAt(5000)
    expect(submissions).toHaveLength(2)
    wanted = 9
    await sweepAt(10_000)
    expect(submissions).toHaveLength(3)
    expect(submissions[0]).toEqual({
      submission_id: expect.stringMatching(new RegExp(`^${PREFIX}[0-9a-f]{12}$`)),
      entrypoint: `exec trainyard worker --server http://here:8642 --api-key-file /etc/worker.key --name ${idOf(0)} --trainer auto --idle-exit 300s`,
      runtime_env: {},
      entrypoint_num_cpus: 1,
      entrypoint_num_gpus: 1,
      entrypoint_resources: { train: 2 },
    })
    // another server's placer knows them again
    placer = place(TOKEN)
    await sweepAt(0)
    expect(submissions).toHaveLength(3)
  })

  it('that are not wanted any more are stopped while they wait, again and again until Ray does it, and left alone while they run', async () => {
    wanted = 2
    await sweepAt(0)
    jobs.set(idOf(0), 'RUNNING')
    wanted = 0
    await sweepAt(5000)
    await sweepAt(10_000)
    expect(calls.slice(2)).toEqual([`stop ${idOf(1)}`, `stop ${idOf(1)}`])
    jobs.set(idOf(1), 'STOPPED')
    await sweepAt(15_000)
    await sweepAt(20_000)
    expect(calls.slice(4)).toEqual([`DELETE ${idOf(1)}`])
  })

  it('that find no node are told of, then stopped and submitted anew', async () => {
    wanted = 1
    await sweepAt(0)
    expect(await sweepAt(29_000)).toEqual([])
    expect(await sweepAt(45_000)).toEqual([
      '1 of 1 workers wait for a node of the Ray cluster with 1 CPU, 1 GPU, 2 train, the longest for 45 s',
    ])
    await sweepAt(599_000)
    expect(submissions).toHaveLength(1)
    await sweepAt(601_000)
    expect(calls.slice(1)).toEqual([`stop ${idOf(0)}`, 'POST'])
    await sweepAt(606_000)
    expect(calls.slice(3)).toEqual([`stop ${idOf(0)}`])
    expect(gone).toEqual([])
  })

  it('that fail say why, and the next one waits longer each time, until one ran for a while', async () => {
    wanted = 1
    await sweepAt(0)
    jobs.set(idOf(0), 'FAILED')
    expect(await sweepAt(1000)).toEqual([
      'workers on the Ray cluster fail: Job entrypoint command failed with exit code 4: error: the API key is not known',
    ])
    expect(gone).toEqual([`${idOf(0)}: Ray says that its worker is FAILED`])
    await sweepAt(5900)
    expect(submissions).toHaveLength(1)
    await sweepAt(6000)
    jobs.set(idOf(1), 'FAILED')
    await sweepAt(7000)
    await sweepAt(16_000)
    expect(submissions).toHaveLength(2)
    await sweepAt(17_000)
    jobs.set(idOf(2), 'RUNNING')
    await sweepAt(18_000)
    expect(await sweepAt(49_000)).toEqual([])
  })

  it('that end without having had anything to do count as failed starts, one that worked does not', async () => {
    wanted = 1
    await sweepAt(0)
    jobs.set(idOf(0), 'SUCCEEDED')
    expect(await sweepAt(1000)).toEqual(['the last worker of the Ray cluster ended without having had anything to do'])
    await sweepAt(5900)
    expect(submissions).toHaveLength(1)
    await sweepAt(6000)
    expect(submissions).toHaveLength(2)
    // it ran for a while, and did nothing all the same
    jobs.set(idOf(1), 'RUNNING')
    await sweepAt(7000)
    await sweepAt(307_000)
    jobs.set(idOf(1), 'SUCCEEDED')
    expect(await sweepAt(308_000)).toEqual([expect.stringMatching(/^the last 2 workers /)])
    await sweepAt(317_900)
    expect(submissions).toHaveLength(2)
    await sweepAt(318_000)
    expect(submissions).toHaveLength(3)
    worked.add(idOf(2))
    jobs.set(idOf(2), 'SUCCEEDED')
    expect(await sweepAt(319_000)).toEqual([])
    expect(submissions).toHaveLength(4)
    // of a worker of before its start a server knows nothing
    placer = place(TOKEN)
    await sweepAt(320_000)
    jobs.set(idOf(3), 'SUCCEEDED')
    expect(await sweepAt(321_000)).toEqual([])
    expect(submissions).toHaveLength(5)
  })

  it('that fail together count once, also where Ray does not forget them', async () => {
    wanted = 3
    await sweepAt(0)
    isKeeping = true
    for (const id of jobs.keys()) jobs.set(id, 'FAILED')
    await sweepAt(1000)
    expect(calls.filter((call) => call.startsWith('DELETE'))).toHaveLength(3)
    await sweepAt(5900)
    expect(submissions).toHaveLength(3)
    // one failure, one pause
    await sweepAt(6000)
    expect(submissions).toHaveLength(6)
    expect(gone).toHaveLength(3)
  })

  it('that Ray has forgotten wait for nothing any more', async () => {
    wanted = 1
    await sweepAt(0)
    jobs.clear()
    await sweepAt(5000)
    expect(submissions).toHaveLength(2)
    expect(await sweepAt(36_000)).toEqual([expect.stringMatching(/^1 of 1 workers wait .* for 31 s$/)])
  })

  it('are missing silently nowhere: no cluster, no token and a wrong token are told', async () => {
    placer = place(null)
    expect(await sweepAt(0)).toEqual([expect.stringMatching(/answers 401: Unauthorized: Missing authentication token/)])
    placer = place('wrong')
    expect(await sweepAt(0)).toEqual([expect.stringMatching(/answers 403: Forbidden: Invalid authentication token/)])
    placer = place(TOKEN, 'http://127.0.0.1:1')
    expect(await sweepAt(0)).toEqual([
      expect.stringMatching(/^Ray at http:\/\/127.0.0.1:1 gives no answer: .*ECONNREFUSED/),
    ])
  })
})

describe('the address of a Ray cluster', () => {
  it.each([
    ['http://head:8265', "must be an address of Ray's dashboard"],
    ['ray://me:secret@head:8265?server=http://a&key-file=/k', 'must hold no password'],
    ['ray://head:8265?server=http://a&key-file=/k&gpu=1', 'has no parameter "gpu"; there are server, key-file'],
    ['ray://head:8265?key-file=/k', 'needs server='],
    ['ray://head:8265?server=http://a&key-file=worker.key', 'the absolute path on each node'],
    ['ray://head:8265?server=http://a&key-file=/k&min=4&max=2', 'min must be at most max, got 4 and 2'],
    ['ray://head:8265?server=http://a&key-file=/k&cpus=many', 'cpus must be a number of 0 or more, got "many"'],
    ['ray://head:8265?server=http://a&key-file=/k&tls=yes', 'tls must be true or false, got "yes"'],
  ])('%s is refused by its part', (address, said) => {
    expect(() => parseRayAddress(address, null)).toThrow(said)
  })

  it('takes the address of clients where it names none, and quotes for a shell what could be anything else', () => {
    const address = "ray://head:8265?key-file=/it's here/key&command=npx trainyard"
    expect(entrypointOf(parseRayAddress(address, 'https://train.example/ours/'), 'w')).toBe(
      "exec npx trainyard worker --server https://train.example/ours --api-key-file '/it'\\''s here/key' --name w --trainer onnx --idle-exit 300s",
    )
  })
})
