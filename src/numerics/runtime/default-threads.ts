/**
 * Threads inside one operator where no setting says how many.
 *
 * The operators of a small model end before a second thread has woken up, and a machine that chats and trains at once has two
 * processes that compute: each gets half of the cores, so that neither waits for a thread the other holds up. Measured on two
 * cores with four million parameters, four streams beside a job: all cores for both leave the job a tenth of its speed, one
 * thread each leaves both more than half (`npm run bench -- service --only beside`).
 */
import { availableParallelism } from 'node:os'

/** Operators of larger models are long enough for all cores. */
const SMALL_PARAMETERS = 50e6

/**
 * @param parameters of the model
 * @param setting what the user wants; null: nothing is set
 * @returns null for all cores
 */
export function threadsFor(
  parameters: number,
  setting: number | null,
  cores: number = availableParallelism(),
): number | null {
  if (setting !== null) return setting
  return parameters <= SMALL_PARAMETERS ? Math.max(1, Math.floor(cores / 2)) : null
}
