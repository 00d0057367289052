/**
 * Engine nodes as whoever runs the service sees them.
 */
import { z } from 'zod'

export const engineNodeSchema = z.object({
  id: z.string(),
  name: z.string(),
  url: z.string(),
  base_model: z.string(),
  /** What computes: `onnx` or `vllm`. */
  engine: z.string(),
  /** What it computes on. */
  device: z.string(),
  versions: z.record(z.string(), z.string()),
  /** `leaving` gets nothing new: it ends, or its engine is being started again. */
  state: z.enum(['ready', 'leaving']),
  context_length: z.number().int(),
  /** Answers it computes at once. */
  slots: z.number().int(),
  running: z.number().int(),
  waiting: z.number().int(),
  /** Adapters that it holds. */
  adapters: z.number().int(),
})
export type EngineNodeInfo = z.infer<typeof engineNodeSchema>

export const engineNodeListSchema = z.object({ data: z.array(engineNodeSchema) })
