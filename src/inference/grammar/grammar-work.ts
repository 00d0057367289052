/**
 * What a grammar's thread compiles: a specification read, its schemas as the compiler understands them.
 *
 * Reading a large schema takes a tenth of a second, so it is done in the thread: the engine's own only passes the text along.
 */
import type { GrammarSpec } from './grammar-spec.js'
import { isLark, larkToEbnf } from './lark/lark.js'
import { type GrammarSchema, toGrammarSchema } from './schema/json-schema.js'
import { parseJson, toNumberedTag } from './structural-tag.js'

export interface GrammarWork {
  readonly spec: GrammarSpec
  /** The one of a `json_schema`, those that a structural tag numbers. */
  readonly schemas: readonly GrammarSchema[]
}

/** @throws {InvalidRequestError} `unsupported_schema`: whatever the compiler would skip in a schema is refused before it starts; `invalid_grammar` for what is no Lark */
export function toGrammarWork(spec: GrammarSpec): GrammarWork {
  switch (spec.kind) {
    case 'json_schema':
      return { spec, schemas: [toGrammarSchema(parseJson(spec.schema, 'JSON schema'), spec)] }
    case 'structural_tag': {
      const { tag, schemas } = toNumberedTag(spec.tag)
      return { spec: { ...spec, tag }, schemas }
    }
    case 'ebnf':
      return { spec: isLark(spec.grammar) ? { ...spec, grammar: larkToEbnf(spec.grammar) } : spec, schemas: [] }
    default:
      return { spec, schemas: [] }
  }
}
