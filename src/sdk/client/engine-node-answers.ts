/**
 * What the client needs of an answer about engine nodes, as `answers.ts` has it for others.
 */
import type { BaseModelFiles } from '#contract/processes/worker.js'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { type Check, listOf, mapOf, number, objectOf, text } from './shape.js'

export const baseModelFiles = objectOf<BaseModelFiles>({
  digest: text,
  layout: text as Check<BaseModelFiles['layout']>,
  files: listOf(objectOf<BaseModelFiles['files'][number]>({ name: text, sha256: text, size_bytes: number })),
})
export const engineNodes = objectOf<{ readonly data: readonly EngineNodeInfo[] }>({
  data: listOf(
    objectOf<EngineNodeInfo>({
      id: text,
      name: text,
      url: text,
      base_model: text,
      engine: text,
      device: text,
      versions: mapOf(text),
      state: text as Check<EngineNodeInfo['state']>,
      context_length: number,
      slots: number,
      running: number,
      waiting: number,
      adapters: number,
    }),
  ),
})
