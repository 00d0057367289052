/**
 * How much memory there is for this process and its children: the container's limit where there is one, else the machine's.
 */
import { totalmem } from 'node:os'

/** @param limitBytes of the container; 0, or more than the machine has, where there is none @returns bytes */
export function memoryBytes(limitBytes = process.constrainedMemory(), machineBytes = totalmem()): number {
  return limitBytes > 0 ? Math.min(limitBytes, machineBytes) : machineBytes
}

/** What this process can still get, in bytes; null where the system does not say (Node has 0 then, as on Linux without `/proc`). */
export function availableMemoryBytes(availableBytes = process.availableMemory()): number | null {
  return availableBytes > 0 ? availableBytes : null
}
