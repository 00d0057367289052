/**
 * The demo's tasks: what is held out stays out, right answers earn 1, wrong and careless ones less.
 */
import { describe, expect, test } from 'vitest'
import { type DemoTask, HELD_OUT_COUNT, splitItems } from '#plugins/demo/task.js'
import { DEFAULT_TASK, demoTasks } from '#plugins/demo/tasks.js'

function taskOf(name: string): DemoTask {
  const task = demoTasks.find((each) => each.name === name)
  if (task === undefined) throw new Error(`no task "${name}"`)
  return task
}
function rewardOf(name: string, prompt: string, answer: string): number {
  const task = taskOf(name)
  const item = [...task.training, ...task.heldOut].find((each) => each.prompt === prompt)
  if (item === undefined) throw new Error(`task "${name}" has no prompt "${prompt}"`)
  return task.reward(item, answer)
}

describe.each(demoTasks.map((task) => [task.name, task] as const))('task %s', (_name, task) => {
  test('no prompt is there twice, and none that is held out is trained on', () => {
    const prompts = [...task.training, ...task.heldOut].map((item) => item.prompt)
    expect(new Set(prompts).size).toBe(prompts.length)
    expect(task.heldOut).toHaveLength(HELD_OUT_COUNT)
    expect(task.training.length).toBeGreaterThanOrEqual(60)
  })
  test('its reference answers earn exactly 1', () => {
    for (const item of [...task.training, ...task.heldOut]) {
      expect(task.reward(item, item.reference), `${item.prompt} -> ${item.reference}`).toBe(1)
    }
  })
  test.each([
    [''],
    [' '],
    ['?'],
    ['.'],
    ['aaaa aaaa aaaa aaaa'],
    ['{"name": "x"}'],
    ['{'],
    ['null'],
    ['{}'],
    ['12345'],
  ])('the careless answer %j earns less than half, and never less than 0', (answer) => {
    for (const item of task.heldOut) {
      const reward = task.reward(item, answer)
      expect(reward, item.prompt).toBeGreaterThanOrEqual(0)
      expect(reward, item.prompt).toBeLessThan(0.5)
    }
  })
  test('the reference answer of one prompt does not do for all others', () => {
    const answer = task.heldOut[0]?.reference ?? ''
    const rewards = task.heldOut.map((item) => task.reward(item, answer))
    expect(rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length).toBeLessThan(0.6)
  })
})

describe('rewards', () => {
  test.each([
    ['ask-back', 'I live in Boston.', 'Boston must be a lovely place! What do you like there?', 1],
    ['ask-back', 'I live in Boston.', 'Boston must be a lovely place! Tell me more.', 0],
    ['ask-back', 'I live in Boston.', 'How are you today?', 0],
    ['ask-back', 'I live in Boston.', 'Boston? Boston? Boston?', 0],
    ['ask-back', 'I live in Boston.', 'Boston must be a lovely, lovely, lovely place, is it?', 0],
    ['ask-back', 'I live in Boston.', 'boston, what do you like there?', 0],
    ['brief', 'My name is Anna.', 'Hello, Anna!', 1],
    ['brief', 'My name is Anna.', 'Nice to meet you, Anna! I am Spark.', 0.5],
    ['brief', 'My name is Anna.', 'Hello there!', 0],
    ['brief', 'My name is Anna.', 'Anna, Anna!', 0],
    ['brief', 'My name is Anna.', 'Hello Anna', 0],
  ])('%s: %s -> %s earns %d', (name, prompt, answer, reward) => {
    expect(rewardOf(name, prompt, answer)).toBeCloseTo(reward, 10)
  })
})

test('the default task is one of them', () => {
  expect(demoTasks.map((task) => task.name)).toContain(DEFAULT_TASK)
})

test('a split holds out prompts from the whole list', () => {
  const items = Array.from({ length: 240 }, (_, i) => ({ prompt: `p${i}`, reference: '', expected: [] }))
  const { training, heldOut } = splitItems(items)
  expect(training).toHaveLength(240 - HELD_OUT_COUNT)
  expect(heldOut.map((item) => item.prompt).slice(0, 3)).toEqual(['p5', 'p15', 'p25'])
})
