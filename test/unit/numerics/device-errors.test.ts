import { describe, expect, it } from 'vitest'
import { toDeviceError } from '#numerics/runtime/device-errors.js'

// those of memory and of the adapter were seen on software Vulkan, the others stand in the sources of Dawn, CUDA and ONNX Runtime
const SAID = [
  ['webgpu', 'device_memory', 'vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY'],
  [
    'webgpu',
    'device_memory',
    'WebGPU validation failed. [Invalid Buffer (unlabeled)] is invalid due to a previous error.',
  ],
  ['cuda', 'device_memory', 'CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);'],
  ['cuda', 'device_memory', 'CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED'],
  ['webgpu', 'device_unavailable', 'webgpu_context.cc:84 Failed to get a WebGPU adapter: No supported adapters.'],
  ['cuda', 'device_unavailable', 'OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library'],
  [
    'cuda',
    'device_unavailable',
    'CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; expr=cudaSetDevice(0);',
  ],
  ['cuda', 'device_unavailable', 'CUDA failure 46: all CUDA-capable devices are busy or unavailable ; GPU=0'],
  ['cuda', 'device_unavailable', 'CUDA failure 46: CUDA-capable device(s) is/are busy or unavailable ; GPU=0'],
  ['cuda', 'device_lost', 'CUDA failure 700: an illegal memory access was encountered ; GPU=0'],
  ['cuda', 'device_lost', 'CUDA failure 214: uncorrectable ECC error encountered ; GPU=0'],
  ['cuda', 'device_lost', 'CUDA failure 716: misaligned address ; GPU=0'],
  ['cuda', 'device_lost', 'CUDA failure 710: device-side assert triggered ; GPU=0'],
  ['cuda', 'device_lost', 'CUDA failure 719: unspecified launch failure ; GPU=0'],
  ['webgpu', 'device_lost', 'vkQueueSubmit failed with VK_ERROR_DEVICE_LOST'],
  ['webgpu', 'device_lost', '[Device] is lost.'],
  ['webgpu', 'device_lost', 'WebGPU device lost (2): Device was destroyed.'],
] as const

describe('an error of a device', () => {
  it.each(SAID)('%s, %s: %s', (device, code, reason) => {
    const error = toDeviceError(device, new Error(reason))
    expect(error).toMatchObject({ code, category: 'unavailable' })
    expect(error?.message.startsWith(`${device} `)).toBe(true)
    expect(error?.hint).toBeDefined()
  })

  it('is none of the CPU, and none where the words mean nothing', () => {
    for (const [, , reason] of SAID) expect(toDeviceError('cpu', new Error(reason))).toBeNull()
    expect(toDeviceError('webgpu', new Error('Invalid feed input name: x'))).toBeNull()
  })
})
