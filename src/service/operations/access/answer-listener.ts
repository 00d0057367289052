/**
 * Who hears how answers come about: the prompt and every sampled token, behind the template and before the text, in whatever
 * format was asked. Bound to a principal, as what it may be answered is. Knows nothing of what becomes of it.
 */
import type { JsonValue } from '#base/util/json.js'
import type { ChatMessage, SamplingParameters } from '#inference/host/protocol.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'

/** One prompt that is answered. */
export interface HeardPrompt {
  /** Which step of the model answers. */
  readonly policy: { readonly step: number }
  readonly sampling: SamplingParameters
  /** Of a conversation. */
  readonly messages?: readonly ChatMessage[]
  readonly tools?: readonly JsonValue[] | null
}

export interface AnswerListener {
  /** How tokens are sampled, of what was asked for. */
  toSampling(asked: SamplingParameters): SamplingParameters
  /** Passes the events of an answer on. */
  hear(prompt: HeardPrompt, events: AsyncIterableIterator<GenerationEvent>): AsyncIterableIterator<GenerationEvent>
}

/** Of a principal. */
interface Heard {
  readonly listener?: AnswerListener
}

/** The command as who listens wants it sampled. */
export function asHeard<C extends { readonly sampling: SamplingParameters }>({ listener }: Heard, command: C): C {
  return listener === undefined ? command : { ...command, sampling: listener.toSampling(command.sampling) }
}

/** The events of an answer, heard where somebody listens. */
export function heardBy(
  { listener }: Heard,
  prompt: HeardPrompt,
  events: AsyncIterableIterator<GenerationEvent>,
): AsyncIterableIterator<GenerationEvent> {
  return listener === undefined ? events : listener.hear(prompt, events)
}
