/**
 * What this project needs of a numeric runtime, declared by us; `ort-runtime.ts` is the one implementation.
 *
 * The runtime receives bytes and tensors. It knows nothing of graphs, models or training. Denormal numbers (below 1.2e-38 in
 * float32) count as zero.
 */
import type { Device } from '#numerics/tensor/device.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'

/** How a session is built. */
export interface SessionOptions {
  /** What computes; default the runtime's. The model must be one for it (`numerics/graph/passes/for-device.ts`). */
  readonly device?: Device
  /** Threads inside one operator; default: all cores. */
  readonly threads?: number
  /** Whether constant weights are re-packed for speed at the cost of a second copy in memory; default true. */
  readonly isPrepacked?: boolean
  /** How far the runtime rewrites the graph; default `all`. */
  readonly optimization?: 'disabled' | 'basic' | 'extended' | 'all'
  /**
   * How long an idle thread waits awake for the next operator before it sleeps; default the runtime's own, some milliseconds.
   * Longer is faster alone and wasteful beside other work.
   */
  readonly spinMicroseconds?: number
  /** Whether freed memory is kept for the next run; default true. */
  readonly hasArena?: boolean
  /**
   * Whether runs of one input size reserve all memory in one block; default false. Measured with sizes that vary: the same
   * processor time, but 762 instead of 481 MB for a small train graph and 486 instead of 437 MB when serving.
   */
  readonly hasMemoryPattern?: boolean
  /** Writes the model as the runtime has rewritten it, for inspection. */
  readonly optimizedModelPath?: string
  /** Writes a kernel trace to `<prefix>_<time>.json` when the session is released. */
  readonly profilePrefix?: string
}

/** Numbers that lie where a device has computed them: an input of other runs on that device, which nothing here reads. */
export interface DeviceTensor {
  readonly dtype: DType
  readonly shape: readonly number[]
  /** Gives the memory back; the collector of garbage does not know how much it is. It must be no input any more. */
  dispose(): void
}

/** Inputs by name. */
export type Feeds = Readonly<Record<string, HostTensor | DeviceTensor>>

/** A loaded model whose outputs all stay where they were computed. */
export interface ResidentSession {
  /** @throws {RuntimeError} `runtime_failed`; {AppError} of a device (`device-errors.ts`) */
  run(feeds: Feeds): Promise<Record<string, DeviceTensor>>
  release(): Promise<void>
}

/** A loaded model. `run` blocks the calling thread whatever its type says: keep it out of the server process. */
export interface Session {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  /**
   * Runs the model. Inputs are read in place; each fetched output is a fresh array, so fetch little.
   *
   * @param feeds one tensor per input, by name
   * @param fetches the outputs wanted; default all. As tensors by name: they are filled and returned, and must have the
   *   outputs' types and shapes
   * @throws {RuntimeError} `runtime_failed`; {AppError} of a device (`device-errors.ts`)
   */
  run(
    feeds: Feeds,
    fetches?: readonly string[] | Readonly<Record<string, HostTensor>>,
  ): Promise<Record<string, HostTensor>>
  release(): Promise<void>
}

/** A model that is no file: its bytes, and the folder its external data files lie in. */
export interface InMemoryModel {
  readonly bytes: Uint8Array
  readonly directory: string
}

/** The same runtime, whose sessions compute on a device unless they are told otherwise. */
export function onDevice(runtime: Runtime, device: Device): Runtime {
  if (device === runtime.device) return runtime
  const loadSession: Runtime['loadSession'] = (model, options) => runtime.loadSession(model, { device, ...options })
  const loadResident: Runtime['loadResident'] = (model, options) => runtime.loadResident(model, { device, ...options })
  return { ...runtime, device, loadSession, loadResident }
}

/** Whether a runtime's sessions compute on something else than the processor. */
export function isAccelerated({ device }: Pick<Runtime, 'device'>): boolean {
  return device !== 'cpu'
}

/** Builds sessions. */
export interface Runtime {
  /** Name and version, for health checks and logs. */
  readonly name: string
  /**
   * What its sessions compute on, unless they are told otherwise. Whoever wraps a runtime passes it on: graphs are rewritten for it, and one
   * that is not gives wrong numbers there without an error.
   */
  readonly device: Device
  /**
   * Loads a model from a file or from memory; external data files are looked up in its folder and mapped, not read.
   *
   * @throws {RuntimeError} `runtime_failed` if the file is not a model the runtime can run; {AppError} of a device (`device-errors.ts`)
   */
  loadSession(model: string | InMemoryModel, options?: SessionOptions): Promise<Session>
  /**
   * The same for a model whose outputs stay on the device.
   *
   * @returns null where the runtime can leave nothing on that device
   * @throws {RuntimeError} `runtime_failed`; {AppError} of a device (`device-errors.ts`)
   */
  loadResident(model: string | InMemoryModel, options?: SessionOptions): Promise<ResidentSession | null>
}
