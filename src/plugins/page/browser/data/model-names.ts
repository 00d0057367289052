/**
 * Models of rows that have only their ids, asked for once each.
 */
import { useEffect, useState } from 'preact/hooks'
import type { Model } from '#contract/wire/models.js'
import { ask } from './client.js'

export function useModels(rows: readonly { readonly model_id: string }[]): ReadonlyMap<string, Model> {
  const [models, setModels] = useState<ReadonlyMap<string, Model>>(new Map())
  const missing = [...new Set(rows.map((row) => row.model_id))].filter((id) => !models.has(id))
  useEffect(() => {
    if (missing.length === 0) return
    void Promise.all(
      missing.map((id) => ask<Model>(`/v1/preview/models/${encodeURIComponent(id)}`).catch(() => null)),
    ).then((found) =>
      setModels(
        (known) =>
          new Map([...known, ...found.flatMap((model) => (model === null ? [] : [[model.id, model] as const]))]),
      ),
    )
  }, [missing.join()])
  return models
}
