/**
 * OpenAI's hyperparameters in the words of an SFT or preference job.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { DPO } from '#contract/jobs/dpo.js'
import { advisedOptions, measuredRate, publishedRate } from '#contract/jobs/size-defaults.js'
import {
  type CreateFineTuningJobRequest,
  type DpoHyperparameters,
  FINE_TUNING_METHODS,
  JOB_KIND_OF_METHOD,
  type RowMethod,
} from './wire.js'

/** What was chosen: shown on the job, and the configuration of the training job. */
export interface ChosenHyperparameters {
  readonly shown: {
    readonly batch_size: number | 'auto'
    readonly learning_rate_multiplier: number
    readonly n_epochs: number
    /** Of preference jobs only. */
    readonly beta?: number
  }
  readonly config: JsonObject
}

/** @throws {InvalidRequestError} `unsupported_method` for any other; `invalid_value` for words of another than its own */
export function methodOf({ method, hyperparameters }: CreateFineTuningJobRequest) {
  const type = method?.type ?? 'supervised'
  const known = FINE_TUNING_METHODS.find((name) => name === type)
  if (known === undefined) {
    throw new InvalidRequestError(
      'unsupported_method',
      `method.type must be one of ${FINE_TUNING_METHODS.join(', ')}, got "${type.slice(0, 64)}"`,
      { param: 'method.type' },
    )
  }
  const other = FINE_TUNING_METHODS.find((name) => name !== known && (method?.[name] ?? null) !== null)
  if (other !== undefined) {
    throw new InvalidRequestError('invalid_value', `method.${other} does not belong to method.type "${known}"`, {
      param: `method.${other}`,
    })
  }
  const isInside = (method?.[known]?.hyperparameters ?? null) !== null
  if ((hyperparameters ?? null) !== null && (isInside || known !== 'supervised')) {
    throw new InvalidRequestError(
      'invalid_value',
      `hyperparameters must stand in method.${known}${known === 'supervised' ? ' or beside it, not in both' : ''}`,
      { param: 'hyperparameters' },
    )
  }
  return known
}

/** @param parameters of the base model; null where nobody knows them */
export function chooseHyperparameters(
  request: CreateFineTuningJobRequest,
  method: RowMethod,
  { parameters, exampleCount }: { readonly parameters: number | null; readonly exampleCount: number },
): ChosenHyperparameters {
  const wanted: DpoHyperparameters = request.method?.[method]?.hyperparameters ?? request.hyperparameters ?? {}
  const epochs = given(wanted.n_epochs) ?? defaultEpochs(exampleCount)
  const batchSize = given(wanted.batch_size) ?? 'auto'
  const multiplier = given(wanted.learning_rate_multiplier) ?? 1
  const shown: ChosenHyperparameters['shown'] = {
    batch_size: batchSize,
    learning_rate_multiplier: multiplier,
    n_epochs: epochs,
  }
  const config = {
    ...advisedOptions(JOB_KIND_OF_METHOD[method], {}),
    batch_size: batchSize,
    epochs,
    learning_rate: Math.min(1, defaultRate(method, parameters) * multiplier),
    ...(request.seed === null || request.seed === undefined ? {} : { seed: request.seed }),
  }
  if (method === 'supervised') return { shown, config }
  const beta = given(wanted.beta) ?? DPO.options.beta.byChoice.values.sigmoid
  return { shown: { ...shown, beta }, config: { ...config, beta } }
}

/** What was measured for a base model of this size, as the command line takes it; else the published default. */
function defaultRate(method: RowMethod, parameters: number | null): number {
  const kind = JOB_KIND_OF_METHOD[method]
  return measuredRate(kind, parameters) ?? publishedRate(kind)
}

function given<T>(value: T | 'auto' | null | undefined): T | null {
  return value === 'auto' || value === null || value === undefined ? null : value
}

/**
 * Passes over the data when nobody says: three, more for few examples, fewer for very many.
 * Source: OpenAI's cookbook, "Data preparation and analysis for chat model fine-tuning".
 */
function defaultEpochs(exampleCount: number): number {
  const TARGET = 3
  if (exampleCount * TARGET < 100) return Math.min(25, Math.max(1, Math.floor(100 / Math.max(1, exampleCount))))
  if (exampleCount * TARGET > 25_000) return Math.max(1, Math.floor(25_000 / exampleCount))
  return TARGET
}
