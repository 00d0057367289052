/**
 * The chat template variables that a job trains with, and its checkpoint keeps: the job's own, else those of the
 * checkpoint that it starts from, so that a model is prompted as before.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { CheckpointRecord } from '#service/storage/checkpoints.js'

/**
 * @param options that the job runs with; kinds without the option have none of their own
 * @param parent null: the base model
 */
export function templateKwargsOf(
  options: JsonObject,
  parent: Pick<CheckpointRecord, 'templateKwargs'> | null,
): JsonObject {
  const own = options['chat_template_kwargs']
  return isJsonObject(own) ? own : (parent?.templateKwargs ?? {})
}
