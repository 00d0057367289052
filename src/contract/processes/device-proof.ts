/**
 * What was found about a device that was tried, as plain data: by a plugin, for the server that is to compute on it.
 */
import { minOf } from '#base/util/lists.js'

/** What is tried; the CPU needs no proof. */
export type Accelerator = 'webgpu' | 'cuda'

/** One kind of graph of a small model, computed on the device and on the CPU. */
export interface GraphProof {
  readonly graph: 'step' | 'score' | 'train'
  /** Largest difference, in parts of the largest number of its tensor. */
  readonly error: number
  /** The output that is off by that much. */
  readonly output: string
  /** Runs of nodes that the CPU computed, by operator. */
  readonly nodesOnCpu: Readonly<Record<string, number>>
  readonly nodesOnDevice: number
  /** Of one run after the first, milliseconds. */
  readonly deviceMs: number
  readonly cpuMs: number
}

export interface DeviceProof {
  readonly device: Accelerator
  /** Whether every number was right. */
  readonly isTrusted: boolean
  /** Why it is not trusted, as a sentence that begins with the device; null where it is. */
  readonly problem: string | null
  /** Those that were computed. */
  readonly graphs: readonly GraphProof[]
  /** The runtime's name and version. */
  readonly runtime: string
}

/** How many nodes of all graphs the CPU computed, and of how many. */
export function placementOf({ graphs }: Pick<DeviceProof, 'graphs'>): { readonly onCpu: number; readonly all: number } {
  let [onCpu, all] = [0, 0]
  for (const { nodesOnCpu, nodesOnDevice } of graphs) {
    const count = Object.values(nodesOnCpu).reduce((sum, runs) => sum + runs, 0)
    onCpu += count
    all += count + nodesOnDevice
  }
  return { onCpu, all }
}

/** How many times as fast as the CPU the slowest kind of graph was; null where none was computed. */
export function speedupOf({ graphs }: Pick<DeviceProof, 'graphs'>): number | null {
  if (graphs.length === 0) return null
  return minOf(graphs.map(({ cpuMs, deviceMs }) => cpuMs / deviceMs))
}
