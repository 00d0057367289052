import { expect, test } from 'vitest'
import { listCards, parseNvidiaCards } from '#base/processes/graphics-cards.js'

test("NVIDIA's program names card, driver and MiB", () => {
  const text = 'NVIDIA L4, 580.65.06, 23034\nNVIDIA H200 NVL, 580.65.06, [N/A]\n'
  expect(parseNvidiaCards(text)).toEqual([
    { name: 'NVIDIA L4', driver: '580.65.06', memoryBytes: 23034 * 1024 ** 2 },
    { name: 'NVIDIA H200 NVL', driver: '580.65.06', memoryBytes: null },
  ])
  expect(parseNvidiaCards('')).toEqual([])
})

test('a machine is asked without an error, whatever it has', async () => {
  for (const { name } of await listCards()) expect(name).not.toBe('')
})
