/**
 * Threads inside one operator where no setting says how many.
 *
 * The operators of a small model end before a second thread has woken up, and a machine that chats and trains at once has two
 * processes that compute: each gets half of the cores, so that neither waits for a thread the other holds up. Measured on two
 * cores with four million parameters, four streams beside a job: all cores for both leave the job a tenth of its speed, one
 * thread each leaves both more than half (`npm run bench -- service --only beside`).
 */
import { cpus } from 'node:os'
import { usableCores } from '#base/machine/cores.js'

/** Operators of larger models are long enough for all cores. */
const SMALL_PARAMETERS = 50e6
const SMALL_ENGINE_THREADS = 8

/**
 * @param parameters of the model
 * @param setting what the user wants; null: nothing is set
 * @param machine cores of the machine; where not all of them may be used, the runtime must hear how many, for it counts them itself
 * @returns null for all cores
 */
export function threadsFor(
  parameters: number,
  setting: number | null,
  cores: number = usableCores(),
  machine: number = cpus().length,
): number | null {
  if (setting !== null) return setting
  if (parameters <= SMALL_PARAMETERS) return halfOf(cores)
  return cores < machine ? cores : null
}

/**
 * The same for an engine: of a small model at most eight, where its training goes on gaining. Measured on sixteen cores with four million
 * parameters: one stream makes no more tokens on eight threads than on four, 64 streams most on eight, and sixteen are slower than one.
 */
export function engineThreadsFor(
  parameters: number,
  setting: number | null,
  cores: number = usableCores(),
  machine: number = cpus().length,
): number | null {
  const threads = threadsFor(parameters, setting, cores, machine)
  const isCapped = setting === null && threads !== null && parameters <= SMALL_PARAMETERS
  return isCapped ? Math.min(threads, SMALL_ENGINE_THREADS) : threads
}

/**
 * Threads of an engine while a job computes on the same machine: half of the cores. Measured on two with 135 million parameters, four
 * streams beside a job: two threads leave the streams 0.74 and the job 0.21 of their speed alone, one thread 0.78 and 0.42.
 *
 * @returns null for the same as alone: the user has said how many, or they are half of the cores anyway
 */
export function threadsBesideJob(
  parameters: number,
  setting: number | null,
  cores: number = usableCores(),
): number | null {
  if (setting !== null || parameters <= SMALL_PARAMETERS || cores < 2) return null
  return halfOf(cores)
}

function halfOf(cores: number): number {
  return Math.max(1, Math.floor(cores / 2))
}
