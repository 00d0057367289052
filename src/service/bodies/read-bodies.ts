/**
 * A thread that reads large bodies; its entry names the bodies it knows. Whole bodies are read at once; bodies of groups take
 * turns, slice by slice, so that a gigabyte does not stand in the way of a megabyte.
 */
import { readFileSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadQuestion, ThreadReply } from '#base/processes/ask-thread.js'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import type { KnownBodies } from './bodies.js'
import { createGroupReading, type GroupReading, readSlices } from './group-reading.js'
import { parseBody } from './parse-body.js'
import {
  type BinaryTask,
  type GroupsTask,
  MAX_OPEN_GROUPS,
  type ParseTask,
  type PlainError,
  type ThreadTask,
  toPlainError,
} from './thread-protocol.js'

/** When the open groups hold more memory than this, only the oldest body goes on. */
const MAX_HELD_BYTES = 128 * 1024 ** 2

/** Reads bodies as long as the thread lives. @param known every body that a service may be sent */
export function readBodies({ bodyOf, binary }: KnownBodies): void {
  const { niceness } = workerData as { readonly niceness: number }
  lowerThreadPriority(niceness)

  const open: { readonly id: number; readonly reading: GroupReading }[] = []
  const waiting: ThreadQuestion<GroupsTask>[] = []
  let turn = 0
  let isRunning = false

  function reply(message: ThreadReply<unknown, PlainError>): void {
    parentPort?.postMessage(message)
  }

  async function readWhole(task: ParseTask | BinaryTask): Promise<unknown> {
    const { name, source } = task
    if (task.type === 'parse') return parseBody(bodyOf(name), readSlices(source))
    const kind = binary.find((each) => each.name === name)
    if (kind === undefined) throw new Error(`no body is called "${name}"`)
    return (await kind.load())('bytes' in source ? source.bytes : readFileSync(source.path))
  }

  function run(): void {
    while (open.length < MAX_OPEN_GROUPS) {
      const next = waiting.shift()
      if (next === undefined) break
      try {
        open.push({ id: next.id, reading: createGroupReading(next.question, bodyOf(next.question.name)) })
      } catch (error) {
        reply({ id: next.id, error: toPlainError(error) })
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
      const answer = current.reading.step()
      if (answer === null) return
      open.splice(turn, 1)
      reply({ id: current.id, answer })
    } catch (error) {
      open.splice(turn, 1)
      current.reading.discard()
      reply({ id: current.id, error: toPlainError(error) })
    }
  }

  parentPort?.on('message', ({ id, question }: ThreadQuestion<ThreadTask>) => {
    if (question.type === 'groups') {
      waiting.push({ id, question })
      if (!isRunning) run()
      return
    }
    readWhole(question).then(
      (answer) => reply({ id, answer }),
      (error: unknown) => reply({ id, error: toPlainError(error) }),
    )
  })
}
