/** What a job has settled stands in its resume point, and is read from points of versions that only reported it. */
import { expect, it } from 'vitest'
import { createAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import { mismatchFacts, type SamplerDecision } from '#training/trainer/decisions.js'
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
  return {
    adapter: createAdapter([{ path: 'layers.0.q_proj', inputSize: 2, outputSize: 2 }], { rank: 1, alpha: 1, seed: 1 }),
    optimizer: createAdamWState(),
    progress,
  }
}

it.each([sampler, null])('keeps what was settled', (decision) => {
  const next = stateOf(null)
  applyResumePoint(next, decodeResumePoint(encodeResumePoint(stateOf(decision))))
  expect(next.progress.decisions).toEqual({ sampler: decision })
})

it.each([sampler, null])('takes it from the report of a point that has nothing else', (decision) => {
  const { tensors, metadata } = decodeSafetensors(encodeResumePoint(stateOf(decision)), 'resume point')
  const { decisions: _, ...older } = JSON.parse(metadata.get('progress') ?? '') as Record<string, unknown>
  const bytes = encodeSafetensors(new Map(tensors), {
    ...Object.fromEntries(metadata),
    progress: JSON.stringify(older),
  })
  expect(decodeResumePoint(bytes).progress.decisions).toEqual({ sampler: decision })
})
