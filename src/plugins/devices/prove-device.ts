/**
 * The question to the process that tries a device, and the way to ask.
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
import type { Accelerator, DeviceProof } from '#contract/processes/device-proof.js'

export interface DeviceQuestion {
  readonly device: Accelerator
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
  const child = startChild('plugins/devices/main.js', {
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
