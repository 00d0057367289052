/**
 * What the client needs of an answer about engine nodes, as `answers.ts` has it for others.
 */
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { type Check, listOf, mapOf, number, objectOf, text } from './shape.js'

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
