/**
 * Entry of a thread that reads large bodies. Whole bodies are read at once; bodies of groups take turns, slice by slice,
 * so that a gigabyte does not stand in the way of a megabyte.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import { createGroupReading, type GroupReading, readSlices } from './group-reading.js'
import { parseBody } from './parse-body.js'
import { type ThreadReply, type ThreadTask, toPlainError } from './thread-protocol.js'

/** Bodies of groups that are open at once. */
const MAX_OPEN = 4
/** When the open groups hold more memory than this, only the oldest body goes on. */
const MAX_HELD_BYTES = 128 * 1024 ** 2

const { niceness } = workerData as { readonly niceness: number }
lowerThreadPriority(niceness)

const open: { readonly id: number; readonly reading: GroupReading }[] = []
const waiting: Extract<ThreadTask, { readonly type: 'groups' }>[] = []
let turn = 0
let isRunning = false

function reply(message: ThreadReply): void {
  parentPort?.postMessage(message)
}

function run(): void {
  while (open.length < MAX_OPEN) {
    const task = waiting.shift()
    if (task === undefined) break
    try {
      open.push({ id: task.id, reading: createGroupReading(task) })
    } catch (error) {
      reply({ type: 'failed', id: task.id, error: toPlainError(error) })
    }
  }
  const held = open.reduce((sum, { reading }) => sum + reading.heldBytes(), 0)
  turn = held > MAX_HELD_BYTES ? 0 : (turn + 1) % Math.max(1, open.length)
  const current = open[turn]
  isRunning = current !== undefined
  if (current === undefined) return
  // lets new tasks in
  setImmediate(run)
  try {
    const value = current.reading.step()
    if (value === null) return
    open.splice(turn, 1)
    reply({ type: 'done', id: current.id, value })
  } catch (error) {
    open.splice(turn, 1)
    current.reading.discard()
    reply({ type: 'failed', id: current.id, error: toPlainError(error) })
  }
}

function parse(task: Extract<ThreadTask, { readonly type: 'parse' }>): void {
  try {
    reply({ type: 'done', id: task.id, value: parseBody(task.name, readSlices(task.source)) })
  } catch (error) {
    reply({ type: 'failed', id: task.id, error: toPlainError(error) })
  }
}

parentPort?.on('message', (task: ThreadTask) => {
  if (task.type === 'parse') return parse(task)
  waiting.push(task)
  if (!isRunning) run()
})
