/**
 * The name under which a model answers chat requests. The form is openpipe-art's.
 */
import type { Model } from '#contract/wire/models.js'

/** `wandb-artifact:///entity/project/name`, with `:step3` for one checkpoint; without, always the latest. */
export function inferenceName(model: Pick<Model, 'entity' | 'project' | 'name'>, step: number | null = null): string {
  const base = `wandb-artifact:///${model.entity}/${model.project}/${model.name}`
  return step === null ? base : `${base}:step${step}`
}
