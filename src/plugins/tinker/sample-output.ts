/**
 * Answers of the engine to a prompt of tokens, as protobuf: `SampleResponse`, by the field numbers of the client `tinker`
 * 0.38.0. Arrays are little-endian.
 */
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { append } from '#base/util/lists.js'
import type { SampleRequest } from '#contract/wire/training/training-loops.js'
import type { GenerationEvent, PromptPosition, TokenLogprob } from '#service/processes/engine-process.js'

/** What the client expects in cells of alternatives that there are not. */
const EMPTY_LOGPROB = -99_999

/** Alternatives of positions, best first; a position may have fewer than the others, or none. */
type Alternatives = readonly (readonly { readonly id: number; readonly logprob: number }[])[]

/** One answer. */
interface SampledOutput {
  readonly isStopped: boolean
  readonly tokens: readonly number[]
  readonly logprobs: readonly number[]
  /** Null: nobody asked. */
  readonly alternatives: Alternatives | null
}

interface SampleOutput {
  readonly sequences: readonly SampledOutput[]
  /** Of each prompt token; NaN where there is none. Null: nobody asked. */
  readonly promptLogprobs: readonly number[] | null
  readonly promptAlternatives: Alternatives | null
  readonly cachedTokens: number
  /** Columns of alternatives. */
  readonly alternativeCounts: { readonly prompt: number; readonly sample: number }
}

function encodeSampleOutput(output: SampleOutput): Uint8Array {
  const message = new ProtobufWriter()
  const { prompt, sample } = output.alternativeCounts
  for (const { isStopped, tokens, logprobs, alternatives } of output.sequences) {
    const sequence = new ProtobufWriter()
      .integer(1, isStopped ? 0 : 1)
      .bytes(2, bytesOf(Int32Array.from(tokens)))
      .bytes(3, bytesOf(Float32Array.from(logprobs)))
    if (alternatives !== null) sequence.message(4, encodeAlternatives(alternatives, sample))
    message.message(1, sequence)
  }
  if (output.promptLogprobs !== null) message.bytes(2, bytesOf(Float32Array.from(output.promptLogprobs)))
  if (output.promptAlternatives !== null) message.message(3, encodeAlternatives(output.promptAlternatives, prompt))
  return message.integer(4, output.cachedTokens).finish()
}

function encodeAlternatives(positions: Alternatives, count: number): ProtobufWriter {
  const ids = new Int32Array(positions.length * count)
  const logprobs = new Float32Array(positions.length * count).fill(EMPTY_LOGPROB)
  positions.forEach((alternatives, position) => {
    alternatives.slice(0, count).forEach(({ id, logprob }, rank) => {
      ids[position * count + rank] = id
      logprobs[position * count + rank] = logprob
    })
  })
  const message = new ProtobufWriter().bytes(1, bytesOf(ids)).bytes(2, bytesOf(logprobs))
  return message.integer(3, count).integer(4, positions.length)
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Int32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}

interface Choice {
  isStopped: boolean
  readonly tokens: number[]
  readonly logprobs: number[]
  readonly alternatives: (readonly TokenLogprob[])[]
}

/** Collects an answer as it comes. */
export async function collectOutput(
  events: AsyncIterable<GenerationEvent>,
  request: SampleRequest,
): Promise<Uint8Array> {
  const choices = Array.from(
    { length: request.num_samples },
    (): Choice => ({ isStopped: false, tokens: [], logprobs: [], alternatives: [] }),
  )
  const positions: PromptPosition[] = []
  let cachedTokens = 0
  for await (const event of events) {
    if (event.type === 'started') cachedTokens = event.cachedTokens
    else if (event.type === 'prompt') append(positions, event.positions)
    else {
      const choice = choices[event.choice] as Choice
      append(choice.tokens, event.tokenIds)
      append(
        choice.logprobs,
        event.logprobs.map(({ logprob }) => logprob),
      )
      append(
        choice.alternatives,
        event.logprobs.map(({ top }) => top),
      )
      if (event.finishReason !== null) choice.isStopped = event.finishReason === 'stop'
    }
  }
  const { topk_prompt_logprobs: prompt, topk_sample_logprobs: sample } = request
  return encodeSampleOutput({
    sequences: choices.map((choice) => ({ ...choice, alternatives: sample > 0 ? choice.alternatives : null })),
    promptLogprobs: request.prompt_logprobs === true ? positions.map(({ logprob }) => logprob ?? Number.NaN) : null,
    promptAlternatives: prompt > 0 ? positions.map(({ top }): Alternatives[number] => top) : null,
    cachedTokens,
    alternativeCounts: { prompt, sample },
  })
}
