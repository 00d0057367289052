/**
 * How much memory there is for this process and its children: the container's limit where there is one, else the machine's.
 */
import { totalmem } from 'node:os'

/** @param limitBytes of the container; 0, or more than the machine has, where there is none @returns bytes */
export function memoryBytes(limitBytes = process.constrainedMemory(), machineBytes = totalmem()): number {
  return limitBytes > 0 ? Math.min(limitBytes, machineBytes) : machineBytes
}
