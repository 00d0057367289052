/** What a job has settled stands in its resume point, and is read from points of versions that only reported it. */
import { expect, it } from 'vitest'
import type { FileContent } from '#base/util/file-content.js'
import { createAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import { mismatchFacts, type SamplerDecision } from '#training/trainer/decisions.js'
import { createEngineLearner } from '#training/trainer/learner/engine-learner.js'
import type { EngineSource } from '#training/trainer/learner/engine-pool.js'
import type { LearnerOptions } from '#training/trainer/learner/learner.js'
import { createProgress } from '#training/trainer/progress.js'
import { applyResumePoint, decodeResumePoint, encodeResumePoint } from '#training/trainer/resume-point.js'

const sampler: SamplerDecision = {
  tokens: 20,
  kl: 0.5,
  ratioP01: 0.1,
  ratioP50: 1,
  ratioP99: 3,
  clippedShare: 0.25,
  isRecomputed: true,
}

function stateOf(decision: SamplerDecision | null) {
  const progress = createProgress()
  progress.stepCount = 1
  progress.decisions.sampler = decision
  if (decision !== null) progress.report.facts['sampler_mismatch'] = mismatchFacts(decision)
  const adapter = createAdapter([{ path: 'layers.0.q_proj', inputSize: 2, outputSize: 2 }], {
    rank: 1,
    alpha: 1,
    seed: 1,
  })
  const state = { adapter, optimizer: createAdamWState(), gradients: new Map<string, Float32Array>() }
  return { learner: createEngineLearner({ ...NOTHING, state }, NO_ENGINES), progress }
}

/** Nothing is computed here. */
const NOTHING = { precision: 'f32', rows: null } as unknown as LearnerOptions
const NO_ENGINES: EngineSource = { variantOf: () => '', open: () => Promise.reject(new Error('nothing is computed')) }

async function bytesOf(decision: SamplerDecision | null): Promise<FileContent> {
  const { learner, progress } = stateOf(decision)
  return encodeResumePoint(learner, progress)
}

it.each([sampler, null])('keeps what was settled', async (decision) => {
  const next = stateOf(null)
  const resumePoint = decodeResumePoint(await bytesOf(decision))
  await applyResumePoint(next.learner, { progress: next.progress, resumePoint })
  expect(next.progress.decisions).toEqual({ sampler: decision })
})

it.each([sampler, null])('takes it from the report of a point that has nothing else', async (decision) => {
  const { tensors, metadata } = decodeSafetensors(await bytesOf(decision), 'resume point')
  const { decisions: _, ...older } = JSON.parse(metadata.get('progress') ?? '') as Record<string, unknown>
  const bytes = encodeSafetensors(new Map(tensors), {
    ...Object.fromEntries(metadata),
    progress: JSON.stringify(older),
  })
  expect(decodeResumePoint(bytes).progress.decisions).toEqual({ sampler: decision })
})

// jobs that another version began go on from such a file
it('names tensors and counts as it always has', async () => {
  const { learner, progress } = stateOf(null)
  const names = ['layers.0.q_proj.lora_A.weight', 'layers.0.q_proj.lora_B.weight']
  const own = names.flatMap((name) => [name, `${name}.first`, `${name}.second`])
  const every = [...own, ...own.map((name) => `best:${name}`)]
  const tensors = new Map(every.map((name, at) => [name, Float32Array.of(at, at + 0.5)]))
  await learner.load({ tensors, updateCount: 3, marks: { best: 2 } })
  progress.best = { step: 2, loss: 0.25, optimizerStepCount: 2 }
  const bytes = await encodeResumePoint(learner, progress)
  const stored = decodeSafetensors(bytes, 'resume point')
  expect([...stored.metadata.keys()].sort()).toEqual(['format', 'optimizer_step_count', 'progress'])
  expect(stored.metadata.get('format')).toBe('trainyard.resume')
  expect(stored.metadata.get('optimizer_step_count')).toBe('3')
  expect(JSON.parse(stored.metadata.get('progress') ?? '')).toMatchObject({ stepCount: 1, best: progress.best })
  expect(new Map([...stored.tensors].map(([name, { data }]) => [name, data]))).toEqual(tensors)
  expect(decodeResumePoint(bytes).state).toEqual({ tensors, updateCount: 3, marks: { best: 2 } })
})
