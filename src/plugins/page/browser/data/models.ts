/**
 * Reads a model by the project and name in an address, with what was written about it, and its curves.
 */

import type { List } from '#contract/wire/list.js'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'
import type { ListedModel } from '#contract/wire/models.js'
import { ApiError } from './api-error.js'
import { ask } from './client.js'

/** @throws {ApiError} 404 for one that is not there */
export async function readModel(project: string, name: string, signal: AbortSignal): Promise<ListedModel> {
  const query = `project=${encodeURIComponent(project)}&name=${encodeURIComponent(name)}`
  const [model] = (await ask<List<ListedModel>>(`/v1/preview/models?${query}&limit=1&include=summary`, { signal })).data
  if (model !== undefined) return model
  throw new ApiError(`there is no model "${name}" in project "${project}"`, { status: 404 })
}

/** @param points most of a series; the server keeps the first, last, lowest and highest of each stretch */
export function readCurves(modelId: string, signal: AbortSignal, points = 1000): Promise<ModelMetrics> {
  return ask(`/v1/preview/models/${encodeURIComponent(modelId)}/metrics?points=${points}`, { signal })
}
