/**
 * The two forms of structural tags.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'

/** The older form, `structures` and `triggers`, in the words of the newer. @throws {InvalidRequestError} `invalid_grammar` */
export function withFormat(tag: JsonValue): JsonValue {
  if (!isJsonObject(tag) || !Array.isArray(tag['structures']) || tag['format'] !== undefined) return tag
  const tags = tag['structures'].map((structure) => {
    if (!isJsonObject(structure))
      throw new InvalidRequestError('invalid_grammar', 'structures must be a list of objects')
    const { begin = '', end = '', schema = {} } = structure
    return { type: 'tag', begin, content: { type: 'json_schema', json_schema: schema }, end }
  })
  return {
    type: 'structural_tag',
    format: { type: 'triggered_tags', triggers: tag['triggers'] ?? [], tags },
  }
}
