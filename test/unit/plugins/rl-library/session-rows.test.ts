/** Rows of training sessions on the wire, as the server's own reader reads them, and the loss that is computed on this side. */
import { describe, expect, test } from 'vitest'
import { checkLossRequest } from '#formats/training-loop/loss-inputs.js'
import { readLossRequest } from '#formats/training-loop/loss-request.js'
import {
  type LossFunction,
  planLoss,
  type SampledRow,
  toWireRows,
  withGradients,
} from '#plugins/rl-library/session-rows.js'
import { encodeLossRequest } from '#plugins/rl-library/training-loop-messages.js'

const LIMITS = { vocabularySize: 100, contextLength: 16 }
const ROW = { prompt: [1, 2, 3], tokens: [4, 5], logprobs: [-0.5, -1.5], advantages: 2 }

function throughTheWire(loss: string, rows: readonly object[], config = {}) {
  const request = { modelId: 'm', seqId: 7, loss, config, isForwardOnly: false, rows: toWireRows(rows as never, loss) }
  return checkLossRequest(readLossRequest(encodeLossRequest(request)), LIMITS)
}

describe('rows on the wire', () => {
  test('are shifted, and say nothing of the prompt', () => {
    const plan = planLoss('gspo', { clipLow: 0.9 })
    expect(plan).toEqual({ kind: 'served', loss: 'gspo', config: { clip_low_threshold: 0.9 } })
    const { sequences, config } = throughTheWire('gspo', [ROW], { clip_low_threshold: 0.9 })
    expect(config).toEqual({ clip_low_threshold: 0.9, clip_high_threshold: 1.2 })
    expect(sequences).toEqual([
      {
        tokens: Int32Array.of(1, 2, 3, 4),
        targets: Int32Array.of(2, 3, 4, 5),
        advantages: Float32Array.of(0, 0, 2, 2),
        logprobs: Float32Array.of(0, 0, -0.5, -1.5),
        ratioMask: Float32Array.of(0, 0, 1, 1),
      },
    ])
  })

  test('cross-entropy counts every token once unless weights say more', () => {
    const weightsOf = (row: object) => [...(throughTheWire('cross_entropy', [row]).sequences[0]?.advantages ?? [])]
    expect(weightsOf({ prompt: [1, 2], tokens: [3, 4] })).toEqual([0, 1, 1])
    expect(weightsOf({ prompt: [1, 2], tokens: [3, 4], weights: 0.5 })).toEqual([0, 0.5, 0.5])
    expect(weightsOf({ prompt: [1], tokens: [3, 4], weights: [1, -2] })).toEqual([1, -2])
  })

  test('gradients of a loss function are weights of the opposite sign', () => {
    const rows = withGradients([ROW], { loss: 1, gradients: [Float32Array.of(0.5, -1)] })
    expect(throughTheWire('cross_entropy', rows).sequences[0]?.advantages).toEqual(Float32Array.of(0, 0, -0.5, 1))
    expect(() => withGradients([ROW], { loss: Number.NaN, gradients: [] })).toThrow('the loss NaN')
    expect(() => withGradients([ROW], { loss: 1, gradients: [[1, Number.NaN]] })).toThrow('NaN at 1 as gradients[0]')
  })
})

test('dro: gradients are the central differences of its value, which at the old policy is -Σ A log p', async () => {
  const plan = planLoss('dro', { beta: 0.3 })
  if (plan.kind !== 'own') throw new Error('dro is computed here')
  const loss = plan.loss as LossFunction<SampledRow>
  // float64 in the place of float32, or differences would be rounding
  const at = async (logprobs: readonly number[]) => await loss([logprobs as never], [ROW])
  expect((await at(ROW.logprobs)).loss).toBeCloseTo(4, 12)
  const point = [-0.9, -1.1]
  const { gradients } = await at(point)
  for (const [i, slope] of Array.from(gradients[0] ?? []).entries()) {
    const moved = async (by: number) => (await at(point.map((logp, j) => (i === j ? logp + by : logp)))).loss
    expect(((await moved(1e-4)) - (await moved(-1e-4))) / 2e-4).toBeCloseTo(slope, 8)
  }
  expect(gradients[0]).toHaveLength(2)
})
