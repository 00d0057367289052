/**
 * OpenAI's three hyperparameters in the words of an SFT job.
 */

import { learningRateFor } from '#api/settings/learning-rate.js'
import type { CreateFineTuningJobRequest, Hyperparameters } from '#api/wire/compatible/fine-tuning.js'
import { InvalidRequestError } from '#base/errors.js'
import type { JsonObject } from '#base/util/json.js'

/** What was chosen: shown on the job, and the configuration of the training job. */
export interface ChosenHyperparameters {
  readonly shown: {
    readonly batch_size: number | 'auto'
    readonly learning_rate_multiplier: number
    readonly n_epochs: number
  }
  readonly config: JsonObject
}

/** @throws {InvalidRequestError} `unsupported_method` for anything but supervised fine-tuning; `invalid_value` if given twice */
export function chooseHyperparameters(
  request: CreateFineTuningJobRequest,
  { baseModel, exampleCount }: { readonly baseModel: string; readonly exampleCount: number },
): ChosenHyperparameters {
  const wanted = requested(request)
  const epochs = given(wanted.n_epochs) ?? defaultEpochs(exampleCount)
  const batchSize = given(wanted.batch_size) ?? 'auto'
  const multiplier = given(wanted.learning_rate_multiplier) ?? 1
  return {
    shown: { batch_size: batchSize, learning_rate_multiplier: multiplier, n_epochs: epochs },
    config: {
      batch_size: batchSize,
      epochs,
      learning_rate: Math.min(1, learningRateFor(baseModel) * multiplier),
      ...(request.seed === null || request.seed === undefined ? {} : { seed: request.seed }),
    },
  }
}

function requested({ method, hyperparameters }: CreateFineTuningJobRequest): Hyperparameters {
  if (method === null || method === undefined) return hyperparameters ?? {}
  if (method.type !== 'supervised') {
    throw new InvalidRequestError(
      'unsupported_method',
      `method.type must be "supervised", got "${method.type.slice(0, 64)}"`,
      { param: 'method.type', hint: 'reinforcement learning is POST /v1/preview/training-jobs' },
    )
  }
  const inside = method.supervised?.hyperparameters
  if (inside !== null && inside !== undefined && hyperparameters !== null && hyperparameters !== undefined) {
    throw new InvalidRequestError(
      'invalid_value',
      'hyperparameters must stand in method.supervised or beside it, not in both',
      {
        param: 'hyperparameters',
      },
    )
  }
  return inside ?? hyperparameters ?? {}
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
