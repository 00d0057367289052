/**
 * A program that draws curves, as the reporter sees it: a run for each model, numbers by name and step.
 *
 * What is sent once may be sent again, after a restart or a fault: a tracker makes nothing twice of it.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { ActiveModel } from '../storage/measured.js'

export interface Point {
  readonly key: string
  readonly step: number
  readonly value: number
  readonly atMs: number
}

export interface Run {
  /** All of them are there when it resolves. */
  add(points: readonly Point[]): Promise<void>
  /** Whether one of its jobs trains now. */
  setRunning(isRunning: boolean): Promise<void>
}

export interface Tracker {
  /** As it was set, without what is secret. */
  readonly name: string
  open(model: ActiveModel): Promise<Run>
}

/**
 * @param signal ends what is asked
 * @throws {InvalidRequestError} `invalid_setting`
 */
export async function openTracker(text: string, signal: AbortSignal): Promise<Tracker> {
  const [, kind, place = ''] = /^(mlflow|tensorboard)=(.+)$/.exec(text) ?? []
  if (kind === 'tensorboard') return (await import('./tensorboard.js')).createTensorboard(place)
  if (kind === 'mlflow' && /^https?:\/\//.test(place)) return (await import('./mlflow.js')).createMlflow(place, signal)
  throw new InvalidRequestError('invalid_setting', `--report ${JSON.stringify(text)} names no tracker`, {
    param: 'report',
    hint: 'mlflow=http://host:5000 or tensorboard=DIR',
  })
}
