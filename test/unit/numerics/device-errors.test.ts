import { describe, expect, it } from 'vitest'
import { toDeviceError } from '#numerics/runtime/device-errors.js'

// those of memory and of the adapter were seen on software Vulkan, the others stand in the sources of Dawn, CUDA and ONNX Runtime
const SAID = [
  ['device_memory', 'vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY'],
  ['device_memory', 'WebGPU validation failed. [Invalid Buffer (unlabeled)] is invalid due to a previous error.'],
  ['device_memory', 'CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);'],
  ['device_memory', 'CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED'],
  ['device_unavailable', 'webgpu_context.cc:84 Failed to get a WebGPU adapter: No supported adapters.'],
  ['device_unavailable', 'OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library'],
  ['device_lost', 'vkQueueSubmit failed with VK_ERROR_DEVICE_LOST'],
  ['device_lost', '[Device] is lost.'],
  ['device_lost', 'WebGPU device lost (2): Device was destroyed.'],
] as const

describe('an error of a device', () => {
  it.each(SAID)('%s: %s', (code, reason) => {
    const error = toDeviceError('webgpu', new Error(reason))
    expect(error).toMatchObject({ code, category: 'unavailable', message: expect.stringMatching(/^webgpu /) })
    expect(error?.hint).toBeDefined()
  })

  it('is none of the CPU, and none where the words mean nothing', () => {
    for (const [, reason] of SAID) expect(toDeviceError('cpu', new Error(reason))).toBeNull()
    expect(toDeviceError('webgpu', new Error('Invalid feed input name: x'))).toBeNull()
  })
})
