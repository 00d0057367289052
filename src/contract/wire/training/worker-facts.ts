/**
 * What is known of a worker: what people call it, and what its numbers depend on. Stands on the jobs it trains.
 */
import { z } from 'zod'
import { atMost } from '../maxima.js'

export const workerFactsSchema = z.object({
  /** The machine's name, unless it was given another. */
  name: z.string().min(1).max(128),
  /** What computes gradients: `onnx`, `torch`. */
  trainer: z.string().min(1).max(32),
  /** What it computes on: `cpu`, or the graphics card's name. */
  device: z.string().min(1).max(128),
  /** Of the programs that take part, by name. */
  versions: atMost(z.record(z.string().max(64), z.string().max(64)), 64),
})
export type WorkerFacts = z.infer<typeof workerFactsSchema>

/** What computes, without whose it is: a process knows this of itself once it has loaded what it computes with. */
export const computingFactsSchema = workerFactsSchema.omit({ name: true })
export type ComputingFacts = z.infer<typeof computingFactsSchema>
