/**
 * A model that is deleted while something is added to it: the one or the other comes first, and neither is a fault of the server.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const ADDITIONS: readonly [string, object][] = [
  ['marks', { mark: 'good', messages: [{ role: 'user', content: 'q' }], answer: { role: 'assistant', content: 'a' } }],
  ['note', { description: 'asks back', tags: ['best'] }],
  ['probes', { messages: [{ role: 'user', content: 'q' }] }],
  [
    'log',
    {
      split: 'val',
      trajectory_groups: [
        {
          trajectories: [
            {
              messages_and_choices: [
                { role: 'user', content: 'q' },
                { role: 'assistant', content: 'a' },
              ],
              reward: 1,
            },
          ],
        },
      ],
    },
  ],
]

it.each(ADDITIONS)('%s', async (name, json) => {
  for (let round = 0; round < 60; round += 1) {
    const model = await service.createModel(`${name}-${round}`)
    const method = name === 'note' ? 'PUT' : 'POST'
    const added = service.json<{ error?: { code: string } }>(`/v1/preview/models/${model}/${name}`, { method, json })
    // at another moment each time
    for (let turn = 0; turn < round % 12; turn += 1) await new Promise(setImmediate)
    const [answer, deleted] = await Promise.all([
      added,
      service.fetch(`/v1/preview/models/${model}`, { method: 'DELETE' }),
    ])
    expect([200, 404, 409], JSON.stringify(answer.body)).toContain(answer.status)
    expect([200, 409]).toContain(deleted.status)
  }
})
