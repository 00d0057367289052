/**
 * Whether graders in Python can be run here: an interpreter, and walls that hold.
 */
import { createPythonGraders } from '#plugins/graders/grading/python/python-graders.js'

export const PYTHON = process.env['TRAINYARD_PYTHON'] ?? 'python3'

/** Null: they can; else why not. */
export async function noWalls(): Promise<string | null> {
  const graders = createPythonGraders({ python: PYTHON, environment: process.env, hidden: [], walls: 'needed' })
  try {
    await graders.tryWalls()
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
