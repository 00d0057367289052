import { expect, it } from 'vitest'
import { fromErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { RuntimeError } from '#base/errors/errors.js'
import { toDeviceError } from '#numerics/runtime/device-errors.js'
import { problemOf } from '#plugins/devices/prove-device.js'

/** As it comes out of the process that tried. */
const told = (error: unknown): Error => fromErrorMessage(toErrorMessage(error, { code: 'proof_failed' }))

it.each([
  ['[Device] is lost.', /^webgpu was lost: /],
  ['VK_ERROR_OUT_OF_DEVICE_MEMORY', /^webgpu is out of memory/],
  ['No supported adapters.', /^webgpu cannot be used: no graphics card/],
])('the problem of a device that says "%s" names it once', (words, sentence) => {
  const problem = problemOf('webgpu', told(toDeviceError('webgpu', new Error(words))))
  expect(problem).toMatch(sentence)
  expect(problem.match(/webgpu/g)).toHaveLength(1)
})

it('names the device where what went wrong does not', () => {
  expect(problemOf('cuda', told(new Error('no space')))).toBe('cuda cannot be used: no space')
  const unknown = new RuntimeError('runtime_failed', 'ONNX Runtime could not load it')
  expect(problemOf('cuda', told(unknown))).toBe('cuda cannot be used: ONNX Runtime could not load it')
})
