/**
 * Modules that compute gradients in place of ONNX Runtime, as who starts a worker tells it of them (`TRAINYARD_TRAINERS`).
 */
import { TRAINER_NAMES, type TrainerName } from '../settings/service.js'

export interface TrainerRow {
  readonly name: TrainerName
  /** Entry point below `src/` that exports `openTrainer` (`training/trainer/trainers.ts`). */
  readonly module: string
}

/** Variables of a process that may train by them. */
export function trainerVariables(rows: readonly TrainerRow[]): Readonly<Record<'TRAINYARD_TRAINERS', string>> {
  return { TRAINYARD_TRAINERS: rows.map(({ name, module }) => `${name}=${module}`).join(',') }
}

export function readTrainerRows(environment: Readonly<Record<string, string | undefined>>): readonly TrainerRow[] {
  return (environment['TRAINYARD_TRAINERS'] ?? '').split(',').flatMap((row) => {
    const [said, module] = row.split('=')
    const name = TRAINER_NAMES.find((known) => known === said)
    return name === undefined || module === undefined ? [] : [{ name, module }]
  })
}
