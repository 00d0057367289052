/**
 * How `chat` asks a model of one's own where no flag says it: as the makers of its base model sample it, else a little below
 * temperature 1, and an answer that goes round in circles is ended. For conversations only: the API has OpenAI's defaults, and
 * what is to be trained on is sampled as it is.
 */
import type { ChatChunk, ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { Model } from '#contract/wire/models.js'
import { isRepeating, REPEATING_CHARACTERS, TALK_SAMPLING } from '#contract/wire/talk-words.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'

/**
 * @param model null: a base model, asked by its name
 * @param given sampling that flags say; any of it, and nothing is added
 */
export async function defaultSampling(
  client: Client,
  model: Pick<Model, 'base_model'> | null,
  given: Partial<ChatRequestBody>,
  signal: AbortSignal,
): Promise<Partial<ChatRequestBody>> {
  if (model === null || given.temperature !== undefined || given.top_p !== undefined) return {}
  try {
    const { sampling } = await client.baseModels.get(model.base_model, { signal })
    return (sampling as Partial<ChatRequestBody> | null | undefined) ?? TALK_SAMPLING
  } catch (error) {
    // a key that may chat and nothing else
    if (error instanceof ApiError && error.status < 500) return TALK_SAMPLING
    throw error
  }
}

/** The chunks up to where the answer begins to repeat itself; that one ends it. @param onRepeating told so */
export async function* untilRepeating(
  chunks: AsyncIterable<ChatChunk>,
  onRepeating: () => void,
): AsyncGenerator<ChatChunk> {
  let text = ''
  for await (const chunk of chunks) {
    text += chunk.choices[0]?.delta.content ?? ''
    // the last part alone: an answer may be long
    text = text.slice(-REPEATING_CHARACTERS)
    if (!isRepeating(text)) {
      yield chunk
      continue
    }
    onRepeating()
    yield { ...chunk, choices: chunk.choices.map((choice) => ({ ...choice, finish_reason: 'stop' as const })) }
    return
  }
}
