/** The same numbers as the Python library's own code, recorded by test/goldens/make_art_fixtures.py. */
import { describe, expect, it } from 'vitest'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { buildTrainingBatch } from '#training/rows/training-batch.js'
import batches from '../../../fixtures/trajectories/art-batches.json' with { type: 'json' }
import losses from '../../../fixtures/trajectories/art-losses.json' with { type: 'json' }
import goldens from '../../../goldens/policy-loss.json' with { type: 'json' }
import { resolveRlConfig } from '../../../support/model/job-options.js'
import { createWordText } from '../../../support/model/random-trajectories.js'
import { policyLossReference } from '../../../support/reference/policy-loss-reference.js'

const unknown = (values: readonly (number | null)[]): number[] => values.map((value) => value ?? Number.NaN)

describe('advantages and weights of whole train calls', () => {
  batches.forEach((batch, n) => {
    it(`equal the library's in call ${n}`, () => {
      const groups = parseTrajectoryGroups(
        batch.groups.map((members) => ({
          trajectories: members.map(({ reward, histories }) => ({
            reward,
            messages_and_choices: [],
            additional_histories: histories.map(([prompt, completion], h) => ({
              messages_and_choices: [
                {
                  message: { role: 'assistant', content: '' },
                  prompt_token_ids: Array(prompt).fill(h),
                  token_ids: Array(completion).fill(7),
                  logprobs: { content: Array(completion).fill({ token: 'a', logprob: -0.5 }) },
                },
              ],
            })),
          })),
        })),
      )
      const built = buildTrainingBatch(groups, {
        text: createWordText(),
        scaleRewards: batch.scaleRewards,
        advantageBalance: batch.advantageBalance,
        lossAggregation: 'trajectory',
        allowTrainingWithoutLogprobs: false,
        maskTruncated: false,
        packedSequenceLength: null,
        tokensPerStep: null,
        gradAccumulationSequences: 1,
        contextLength: 256,
        padTokenId: 0,
        seed: n,
      })
      const found = new Map<string, [number, number]>()
      for (const row of built.steps.flatMap(({ rows }) => rows)) {
        for (const { groupIndex, trajectoryIndex, end } of row.sequences) {
          found.set(`${groupIndex}:${trajectoryIndex}`, [row.advantages[end - 1], row.weights[end - 1]])
        }
      }
      batch.groups.forEach((members, g) => {
        members.forEach(({ coefficients }, i) => {
          const got = found.get(`${g}:${i}`)
          expect(got === undefined).toBe(coefficients === null)
          coefficients?.forEach((value, c) => {
            expect(got?.[c]).toBeCloseTo(value, 4)
          })
        })
      })
    })
  })
})

describe('the float64 reference of the policy loss', () => {
  for (const vector of losses) {
    it(`has the library's loss and gradient for ${JSON.stringify(vector.config)}`, () => {
      const { precalculatedLogprobs, ...arrays } = vector
      const input = precalculatedLogprobs === null ? arrays : { ...arrays, precalculatedLogprobs }
      const { loss, gradient } = policyLossReference(input, resolveRlConfig(vector.config).policyLoss)
      expect(loss).toBeCloseTo(vector.loss, 5)
      gradient.forEach((value, t) => {
        expect(value).toBeCloseTo(vector.gradient[t], 5)
      })
    })
  }

  for (const [name, { options, loss, gradient }] of Object.entries(goldens.cases)) {
    it(`agrees with the independent PyTorch golden ${name}`, () => {
      const config = resolveRlConfig(options).policyLoss
      const input = {
        logprobs: goldens.logp,
        samplerLogprobs: unknown(config.truncation === null ? goldens.old : goldens.sampler),
        ...(config.truncation === null ? {} : { precalculatedLogprobs: unknown(goldens.old) }),
        referenceLogprobs: goldens.reference,
        advantages: goldens.advantage,
        weights: goldens.weight,
        segmentIds: goldens.segments,
      }
      const got = policyLossReference(input, config)
      got.gradient.forEach((value, t) => {
        expect(value).toBeCloseTo(gradient[t], 9)
      })
      expect(got.loss).toBeCloseTo(loss, 9)
    })
  }
})
