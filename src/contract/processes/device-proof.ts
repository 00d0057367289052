/**
 * The question to the process that tries a device, its findings as plain data, and the way to ask.
 *
 * A device is tried in a process of its own, because a faulty device or driver may crash the process. A crash then is
 * the answer.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { minOf } from '#base/util/lists.js'

/** What is tried; the CPU needs no proof. */
export type Accelerator = 'webgpu' | 'cuda'

export interface DeviceQuestion {
  readonly device: Accelerator
}

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

/** Of the largest number of a tensor: sums are taken in another order there, and 1e-4 was seen. */
export const DEVICE_TOLERANCE = 1e-3
/** Drivers compile a program for each shape of each operator: seconds on a card, a minute or two in software. */
const MOST_MS = 10 * 60_000

/**
 * Tries a device: starts a process that computes on it, and waits for its end.
 *
 * @returns also where the process died, or did not end; it never rejects
 */
export async function proveDevice(
  device: Accelerator,
  environment: Environment,
  mostMs = MOST_MS,
): Promise<DeviceProof> {
  const refused = (problem: string): DeviceProof => ({ device, isTrusted: false, problem, graphs: [], runtime: '' })
  // a process that is killed removes nothing
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-device-'))
  const child = startChild('devices/main.js', {
    environment,
    needs: ['computing'],
    given: { TMPDIR: folder, TEMP: folder, TMP: folder },
  })
  const question: DeviceQuestion = { device }
  const { answer, closed } = askProcess<DeviceProof>(child, question, {
    died: (how) => new Error(`the process that tried it ${how}`),
  })
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, mostMs)
  try {
    return await answer
  } catch (error) {
    if (isLate)
      return refused(`${device} cannot be used: the process that tried it did not end within ${mostMs / 1000} s`)
    return refused(problemOf(device, error))
  } finally {
    clearTimeout(timer)
    child.kill('SIGKILL')
    await closed
    await rm(folder, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Where the runtime knows what the device's words mean, it has made the sentence of them (`numerics/runtime/device-errors.ts`). */
export function problemOf(device: Accelerator, error: unknown): string {
  if (error instanceof AppError && error.code.startsWith('device_')) return error.message
  return `${device} cannot be used: ${error instanceof Error ? error.message : String(error)}`
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
