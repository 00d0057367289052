/**
 * Whether wanted answers hold what a model's base cannot write: tokens that its weights do not tell from others. No example and
 * no reward changes that, so it is said before anything is trained. Asks the service for the tokens of answers.
 */
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import type { Example } from './examples.js'
import { COMMON, type Missing, wantedOf } from './missing.js'

/** Different answers that are looked at, and the longest of them, characters. */
const [MOST_ANSWERS, LONGEST] = [32, 2000]
/** Texts that are named. */
const NAMED = 5

/**
 * @param baseModel of the model, or itself
 * @returns null where nothing is lost, nothing is wanted, or the service does not say
 */
export async function findLost(
  client: Client,
  { baseModel, examples, signal }: LostQuestion,
): Promise<(Missing & { readonly kind: 'lost' }) | null> {
  const wanted = [...new Set(examples.flatMap(({ row }) => wantedOf(row) ?? []))]
    .filter(({ length }) => length <= LONGEST)
    .slice(0, MOST_ANSWERS)
  if (wanted.length === 0) return null
  const lost = await lostTokensOf(client, baseModel, signal)
  if (lost.size === 0) return null
  const counts = new Map<string, number>()
  for (const prompt of wanted) {
    const { tokens } = await client.text.tokenize({ model: baseModel, prompt, add_special_tokens: false }, { signal })
    for (const text of new Set(tokens.flatMap((id) => lost.get(id) ?? [])))
      counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  const named = [...counts].sort(([, a], [, b]) => b - a)
  const most = named[0]?.[1] ?? 0
  if (most < COMMON * wanted.length) return null
  const texts = named.slice(0, NAMED).map(([text, count]) => `${JSON.stringify(text)} (${count} of ${wanted.length})`)
  return {
    kind: 'lost',
    isMost: 2 * most >= wanted.length,
    says: `wanted answers hold ${texts.join(', ')}, which ${baseModel} can neither read nor write: its weights do not tell such tokens from others`,
  }
}

interface LostQuestion {
  readonly baseModel: string
  readonly examples: readonly Example[]
  readonly signal: AbortSignal
}

async function lostTokensOf(client: Client, name: string, signal: AbortSignal): Promise<ReadonlyMap<number, string>> {
  try {
    const { lost_tokens: lost } = await client.baseModels.get(name, { signal })
    return new Map((lost ?? []).map(({ id, text }) => [id, text]))
  } catch (error) {
    // another service, or a base model that is gone
    if (error instanceof ApiError && error.category === 'not_found') return new Map()
    throw error
  }
}
