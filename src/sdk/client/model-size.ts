/**
 * How large a base model is, as its server knows it: what defaults by size are chosen from.
 */
import type { CallOptions, Client } from './client.js'
import { ApiError } from './errors.js'

/**
 * Parameters of a base model.
 *
 * @returns null where nobody can tell: the server does not serve the model, cannot read it, or does not describe base models at all
 */
export async function parametersOf(client: Client, baseModel: string, call: CallOptions = {}): Promise<number | null> {
  try {
    const { parameters } = await client.baseModels.get(baseModel, call)
    return typeof parameters === 'number' ? parameters : null
  } catch (error) {
    if (error instanceof ApiError && error.category === 'not_found') return null
    throw error
  }
}
