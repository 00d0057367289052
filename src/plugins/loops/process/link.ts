/**
 * The process's end of the channel to its server: questions with their answers, by number.
 */
import { createDeferred } from '#base/util/deferred.js'
import type { Graded } from '#plugins/graders/grading/grade.js'
import type { FromProcess, LoopOrder, LoopQuestion, LoopReport, ToProcess } from '../messages.js'
import type { ToolAnswer, ToolCallRequest } from '../tools.js'

/** The loop pauses, was cancelled, or has ended: nothing is left to do. */
export class LoopStoppedError extends Error {}

export type Link = ReturnType<typeof createLink>

export function createLink() {
  const waiting = new Map<number, ReturnType<typeof createDeferred<unknown>>>()
  let count = 0

  const send = (message: FromProcess): Promise<void> =>
    new Promise((resolve) => {
      if (process.send === undefined) resolve()
      else process.send(message, undefined, undefined, () => resolve())
    })

  async function ask(question: LoopQuestion): Promise<unknown> {
    count += 1
    const answer = createDeferred<unknown>()
    waiting.set(count, answer)
    await send({ type: 'ask', number: count, question })
    return await answer.promise
  }

  return {
    /** Takes what the server answers. */
    take: ({ number, answer, error }: Extract<ToProcess, { readonly type: 'answer' }>): void => {
      const asked = waiting.get(number)
      waiting.delete(number)
      if (error === null) asked?.resolve(answer)
      else asked?.reject(new Error(`the server could not take a report: ${error}`))
    },
    /** @throws {LoopStoppedError} where it was the last one */
    report: async (report: LoopReport): Promise<void> => {
      const order = (await ask({ kind: 'report', report })) as LoopOrder
      if (order !== 'go') throw new LoopStoppedError(order)
    },
    grades: async (digests: readonly string[]) =>
      (await ask({ kind: 'grades', digests })) as Readonly<Record<string, Graded>>,
    remember: async (digest: string, graded: Graded): Promise<void> => {
      await ask({ kind: 'remember', digest, graded })
    },
    call: async (call: ToolCallRequest): Promise<ToolAnswer> => (await ask({ kind: 'call', call })) as ToolAnswer,
    /** Says why the process ends. */
    fail: async (error: unknown): Promise<void> =>
      await send({ type: 'failed', message: error instanceof Error ? error.message : String(error) }),
  }
}
