/**
 * Two training loops that never pause, and one worker, beside chats: each goes on again after the other had its turn, with the losses of a loop
 * that is alone.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { openTinker, plainRows, type TestRun, type TinkerTestClient } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'

const CALL = { loss: 'cross_entropy', data: plainRows([[1, 20, 30, 40, 50, 60]]) }
const STEP = { adam_params: { learning_rate: 1e-4 } }
const AHEAD = 4

let service: TestService
let tinker: TinkerTestClient
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 1, tuning: { jobs: { sessionTurnMs: 5000 } } })
  tinker = await openTinker(service)
})
afterAll(() => service.dispose())

let isOver = false

/** Pipelines steps until it is over. @param losses filled */
async function loop(run: TestRun, losses: number[]): Promise<void> {
  const sent: string[] = []
  while (!isOver) {
    while (sent.length < losses.length + AHEAD) {
      sent.push(await run.send(CALL))
      await run.post('optim_step', STEP)
    }
    losses.push((await tinker.loss(sent[losses.length] as string)).loss)
  }
}

it('take turns, beside chats that are answered meanwhile', { timeout: 300_000 }, async () => {
  const [first, second] = [await tinker.createRun({ seed: 5 }), await tinker.createRun({ seed: 5 })]
  const losses: [number[], number[]] = [[], []]
  const running = [loop(first, losses[0])]
  await until(() => losses[0].length > 0, 'the first loop has the worker')
  running.push(loop(second, losses[1]))
  let chats = 0
  const chatting = (async () => {
    while (!isOver) {
      const { status } = await service.json('/v1/chat/completions', {
        json: { model: 'trainyard/tiny-random', messages: [{ role: 'user', content: 'a' }], max_tokens: 4 },
      })
      expect(status).toBe(200)
      chats += 1
    }
  })()
  await until(() => losses[1].length > 0, 'the second loop had a turn')
  const [before, chatsBefore] = [losses[0].length, chats]
  // what it had sent before its turn ended does not count
  await until(() => losses[0].length > before + AHEAD, 'the first loop had another turn')
  const again = losses[1].length
  await until(() => losses[1].length > again + AHEAD, 'and so had the second')
  await until(() => chats > chatsBefore, 'a chat was answered meanwhile')
  isOver = true
  await Promise.all([...running, chatting])
  const count = Math.min(losses[0].length, losses[1].length)
  expect(losses[0].slice(0, count)).toEqual(losses[1].slice(0, count))
})
