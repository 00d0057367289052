/**
 * The thread that keeps a training worker's lease alive while native code blocks the main thread.
 *
 * It sends heartbeats, passes a cancel request on through shared memory, and kills the whole process (SIGKILL: the main
 * thread may be inside native code) when the attempt is stale, when the parent process has died, or, on a machine without
 * the server, when the server has been gone for longer than anybody waits for it. The last is counted in ticks of a timer, so that a
 * machine that slept does not take its own sleep for the server's. A killed worker has changed nothing: the server only
 * ever sees complete requests.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { nudgeThreadPool } from '#base/processes/nudge-thread-pool.js'
import { FencedError, PATIENCE_MS } from './fenced-requests.js'
import { CANCEL_FLAG, type HeartbeatData, PROGRESS_FLAG, STOP_FLAG } from './heartbeat-flags.js'
import { createWorkerClient } from './worker-client.js'

/** How often the parent and the server are checked. */
const WATCH_MS = 1000

function start(data: HeartbeatData): void {
  const client = createWorkerClient(data.identity)
  const flags = new Int32Array(data.flags)
  const leaseMs = data.leaseSeconds * 1000
  let ticksWithoutAnswer = 0
  let isStopped = false
  let isBeating = false

  const beat = async (): Promise<void> => {
    if (isBeating) return
    isBeating = true
    // the pool is the whole process's
    nudgeThreadPool()
    try {
      const { isCancelRequested, isStopRequested } = await client.heartbeat(Atomics.load(flags, PROGRESS_FLAG))
      ticksWithoutAnswer = 0
      if (isCancelRequested) Atomics.store(flags, CANCEL_FLAG, 1)
      if (isStopRequested) Atomics.store(flags, STOP_FLAG, 1)
    } catch (error) {
      if (isStopped) return
      if (error instanceof FencedError) killSelf()
    } finally {
      isBeating = false
    }
  }
  // A third of the lease leaves room for two lost heartbeats.
  const beatTimer = setInterval(() => void beat(), Math.max(200, leaseMs / 3))
  const watchTimer = setInterval(() => {
    // Half a lease of grace: a server that restarts finds the attempt alive if it is back in time.
    ticksWithoutAnswer += 1
    const silenceMs = Math.max(1.5 * leaseMs, data.identity.patienceMs ?? PATIENCE_MS)
    const isServerGone = !data.isServerParent && ticksWithoutAnswer > 1 + silenceMs / WATCH_MS
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
