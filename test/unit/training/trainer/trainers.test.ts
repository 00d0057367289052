import { expect, it } from 'vitest'
import { readTrainerRows, trainerVariables } from '#contract/processes/trainers.js'
import type { TrainerSetting } from '#contract/settings/service.js'
import type { LearnerBackend } from '#training/trainer/learner/learner.js'
import { createTrainers, readTrainers, type TrainerModule } from '#training/trainer/trainers.js'

/** A trainer that writes down what it is asked for. */
function scripted(said: string[], { hasCard = false, failsToLoad = 0 } = {}): () => Promise<TrainerModule> {
  let loads = 0
  const backend = { facts: { name: 'torch', description: 'scripted' } } as LearnerBackend
  return async () => {
    loads += 1
    said.push('loaded')
    if (loads <= failsToLoad) throw new Error('its file is damaged')
    return {
      openTrainer: ({ python }) => ({
        backend: async () => {
          said.push(`asked by ${python}`)
          return backend
        },
        hasCard: async () => {
          said.push('looked')
          return hasCard
        },
        stop: async () => void said.push('stopped'),
      }),
    }
  }
}

const trainersOf = (trainer: TrainerSetting, load?: () => Promise<TrainerModule>) =>
  createTrainers({ trainer, modules: load === undefined ? {} : { torch: load }, python: 'py', environment: {} })

it('loads nothing for jobs of ONNX Runtime, and a module once for those that it computes', async () => {
  const said: string[] = []
  const trainers = trainersOf('onnx', scripted(said))
  expect(await trainers.choose(null)).toBeNull()
  expect(await trainers.choose('onnx')).toBeNull()
  await trainers.stop()
  expect(said).toEqual([])
  // a job keeps the trainer that it began with
  expect((await trainers.choose('torch'))?.facts.description).toBe('scripted')
  await trainers.choose('torch')
  await trainers.stop()
  expect(said).toEqual(['loaded', 'asked by py', 'asked by py', 'stopped'])
})

it.each([
  [true, 'torch', ['loaded', 'looked', 'asked by py', 'asked by py']],
  [false, undefined, ['loaded', 'looked']],
])('auto looks for a card once; there is one: %s', async (hasCard, name, expected) => {
  const said: string[] = []
  const trainers = trainersOf('auto', scripted(said, { hasCard }))
  expect((await trainers.choose(null))?.facts.name).toBe(name)
  expect((await trainers.choose(null))?.facts.name).toBe(name)
  expect(said).toEqual(expected)
})

it('tries a module that could not be loaded again with the next job', async () => {
  const trainers = trainersOf('torch', scripted([], { failsToLoad: 1 }))
  await expect(trainers.choose(null)).rejects.toThrow('its file is damaged')
  expect((await trainers.choose(null))?.facts.name).toBe('torch')
})

it('names a trainer that no plugin has; auto does without it', async () => {
  await expect(trainersOf('torch').choose(null)).rejects.toMatchObject({
    code: 'trainer_unavailable',
    message: 'trainer torch is not available: no plugin has it',
  })
  expect(await trainersOf('auto').choose(null)).toBeNull()
})

it('is told of modules by variables, and leaves out what it does not know', async () => {
  const rows = [{ name: 'torch', module: 'plugins/some/module.js' }] as const
  const variables = trainerVariables(rows)
  expect(readTrainerRows(variables)).toEqual(rows)
  expect(readTrainerRows({ TRAINYARD_TRAINERS: 'jax=a.js,torch,' })).toEqual([])
  expect(readTrainerRows({})).toEqual([])
  const trainers = readTrainers({ ...variables, TRAINYARD_TRAINER: 'torch' })
  await expect(trainers.choose(null)).rejects.toThrow(/plugins\/some\/module\.js/)
  expect(await readTrainers({}).choose(null)).toBeNull()
})
