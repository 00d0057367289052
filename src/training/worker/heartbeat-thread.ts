/**
 * The thread that keeps a training worker's lease alive while native code blocks the main thread.
 *
 * It sends heartbeats, passes a cancel request on through shared memory, and kills the whole process (SIGKILL: the main
 * thread may be inside native code) when the attempt is stale, when the server has been gone for a lease and a half, or when the parent
 * process has died. A killed worker has changed nothing: the server only ever sees complete requests.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { createWorkerClient, FencedError, type WorkerIdentity } from './worker-client.js'

/** What the main thread hands over. */
export interface HeartbeatData {
  readonly identity: WorkerIdentity
  readonly leaseSeconds: number
  readonly parentPid: number
  /** One Int32: 1 once a cancel was requested. */
  readonly flags: SharedArrayBuffer
}

/** How often parent and server are looked after. */
const WATCH_MS = 1000

function start(data: HeartbeatData): void {
  const client = createWorkerClient(data.identity)
  const flags = new Int32Array(data.flags)
  const leaseMs = data.leaseSeconds * 1000
  let lastAnswerMs = performance.now()
  let isStopped = false

  const beat = async (): Promise<void> => {
    try {
      const { isCancelRequested } = await client.heartbeat()
      lastAnswerMs = performance.now()
      if (isCancelRequested) Atomics.store(flags, 0, 1)
    } catch (error) {
      if (isStopped) return
      if (error instanceof FencedError) killSelf()
    }
  }
  // A third of the lease leaves room for two lost heartbeats.
  const beatTimer = setInterval(() => void beat(), Math.max(200, leaseMs / 3))
  const watchTimer = setInterval(() => {
    // Half a lease of grace: a server that restarts finds the attempt alive if it is back in time.
    const isServerGone = performance.now() - lastAnswerMs > 1.5 * leaseMs
    if (isServerGone || process.ppid !== data.parentPid) killSelf()
  }, WATCH_MS)
  void beat()
  parentPort?.once('message', () => {
    isStopped = true
    clearInterval(beatTimer)
    clearInterval(watchTimer)
    parentPort?.close()
  })
}

function killSelf(): void {
  process.kill(process.pid, 'SIGKILL')
}

start(workerData as HeartbeatData)
