/**
 * Writes many tensors into one file, each on a page border, remembers where they lie, and reads one again.
 *
 * Knows nothing of models. Little-endian raw bytes, as ONNX external data wants them.
 */
import { type FileHandle, open } from 'node:fs/promises'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'

/** Where a tensor lies. */
export interface PreparedTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  /** Absolute path. */
  readonly file: string
  readonly offsetBytes: number
  readonly sizeBytes: number
}

/** A written tensor, before the file has its final name. */
export type WrittenTensor = Omit<PreparedTensor, 'file'> & { readonly name: string }

/** Page size of the machines we run on; mappings start on page borders. */
const ALIGNMENT_BYTES = 4096

/** One file being written, front to back. */
export class TensorFileWriter {
  readonly #file: FileHandle
  readonly #tensors: WrittenTensor[] = []
  #offsetBytes = 0
  #isOpen = true

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Creates the file, replacing an old one. */
  static async create(path: string): Promise<TensorFileWriter> {
    return new TensorFileWriter(await open(path, 'w'))
  }

  /** Appends one tensor. */
  async write(name: string, tensor: HostTensor): Promise<void> {
    const { data } = tensor
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, at, bytes.length - at, this.#offsetBytes + at)
      at += bytesWritten
    }
    const { dtype, shape } = tensor
    this.#tensors.push({ name, dtype, shape, offsetBytes: this.#offsetBytes, sizeBytes: bytes.length })
    this.#offsetBytes = Math.ceil((this.#offsetBytes + bytes.length) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
  }

  /** Pads the last page, flushes and closes. */
  async finish(): Promise<{ readonly sizeBytes: number; readonly tensors: readonly WrittenTensor[] }> {
    await this.#file.truncate(this.#offsetBytes)
    await this.#file.sync()
    await this.abandon()
    return { sizeBytes: this.#offsetBytes, tensors: this.#tensors }
  }

  /** Closes the file, whatever its state. */
  async abandon(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#file.close()
  }
}

/** A float32 tensor's values. */
export async function readTensor({ file, offsetBytes, sizeBytes }: PreparedTensor): Promise<Float32Array> {
  const values = new Float32Array(sizeBytes / Float32Array.BYTES_PER_ELEMENT)
  const handle = await open(file, 'r')
  try {
    await handle.read(new Uint8Array(values.buffer), 0, sizeBytes, offsetBytes)
  } finally {
    await handle.close()
  }
  return values
}
