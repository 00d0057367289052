/** The gradient check of `system-check`: passes where kernels and rules are right, names the operator whose gradient is wrong. */
import { expect, test } from 'vitest'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { checkGradients } from '#numerics/self-test/gradients.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

const runtime = createOrtRuntime()

/** The real runtime, but for one output of one operator. */
function withWrong(output: string, change: (value: number) => number): Runtime {
  return {
    ...runtime,
    loadSession: async (model, options) => {
      const session = await runtime.loadSession(model, options)
      return {
        ...session,
        release: () => session.release(),
        run: async (feeds, fetches) => {
          const results = await session.run(feeds, fetches)
          const found = results[output]
          if (found === undefined) return results
          const changed = Float32Array.from(found.data as Float32Array, change)
          return { ...results, [output]: float32Tensor(changed, found.shape) }
        },
      }
    },
  }
}

test('every operator agrees with central differences', async () => {
  const results = await checkGradients(runtime)
  expect(results.length).toBeGreaterThan(15)
  expect(results.filter(({ isPassed }) => !isPassed)).toEqual([])
  for (const { error } of results) expect(error).toBeGreaterThan(0)
})

test.each([
  ['gradient_Softmax', (value: number) => value * 1.02, 'Softmax'],
  ['gradient_RotaryEmbedding', (value: number) => -value, 'RotaryEmbedding'],
  ['gradient_MatMul', () => Number.NaN, 'MatMul'],
  // a kernel that is wrong forward
  ['y_Tanh', (value: number) => value * 0.98, 'Tanh'],
])('%s off is a failure of that operator alone', async (output, change, operator) => {
  const results = await checkGradients(withWrong(output, change))
  expect(results.filter(({ isPassed }) => !isPassed).map((each) => each.operator)).toEqual([operator])
})
