/**
 * What a device's driver says when it fails, as an error that a person can act on. ONNX Runtime quotes it in the middle of lines about its
 * own sources; the words are those of Dawn, of Vulkan and of CUDA.
 */
import { AppError } from '#base/errors/errors.js'
import type { Device } from '#numerics/tensor/device.js'

interface DeviceFault {
  readonly code: 'device_memory' | 'device_lost' | 'device_unavailable'
  /** In the text of the runtime. */
  readonly words: RegExp
  /** What is wrong, behind the device's name. */
  readonly says: string
  readonly hint: string
}

const LISTED = '`trainyard devices` says what is there and what is missing; `serve --device cpu` always works'

/** In the order in which they are looked for: a buffer that could not be had is invalid for all who use it. */
const FAULTS: readonly DeviceFault[] = [
  {
    code: 'device_lost',
    words:
      /device\]? (?:is |was )?lost|lost device|device_lost|device removed|unspecified launch failure|an illegal memory access was encountered|uncorrectable ECC error|misaligned address|device-side assert/i,
    says: 'was lost: its driver gave it up, or it was taken away',
    hint: 'nothing is to be done if it was reset; look at the log of the system, and at `trainyard devices --try`',
  },
  {
    code: 'device_unavailable',
    words: /failed to get a webgpu adapter|no supported adapters|no CUDA-capable device/i,
    says: 'cannot be used: no graphics card with a driver was found',
    hint: LISTED,
  },
  {
    code: 'device_unavailable',
    words: /CUDA-capable device\(?s\)? (?:is\/)?are busy or unavailable|cudaErrorDevicesUnavailable/i,
    says: 'cannot be used: another process has it for itself, or it does not answer',
    hint: 'look at `nvidia-smi`: who uses it, and its compute mode; `serve --device cpu` always works',
  },
  {
    code: 'device_unavailable',
    words: /failed to load shared library/i,
    says: 'cannot be used: its library cannot be loaded, a file that it needs is missing',
    hint: LISTED,
  },
  {
    code: 'device_memory',
    words:
      /out_of_(?:device_|host_)?memory|out of memory|invalid buffer|bad.?alloc|alloc_failed|exceeds the max (?:buffer|storage buffer)|(?:buffer|binding) size .{0,80}(?:larger|greater|exceeds)/i,
    says: 'is out of memory, or takes no buffer of that size',
    hint: 'serve fewer or smaller base models, shorter contexts (--max-context-length) and less --kv-cache-memory, train on shorter rows, or take --device cpu',
  },
]

/**
 * The error of a device that failed; of the CPU, and where the words mean nothing, null. It is shown to whoever asked, so it
 * names nothing of this machine but the device.
 */
export function toDeviceError(device: Device, cause: unknown): AppError | null {
  if (device === 'cpu') return null
  const reason = cause instanceof Error ? cause.message : String(cause)
  const fault = FAULTS.find(({ words }) => words.test(reason))
  if (fault === undefined) return null
  const { code, says, hint } = fault
  return new AppError('unavailable', code, `${device} ${says}`, { cause, hint })
}
