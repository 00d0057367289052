/**
 * What a grammar's thread compiles: a specification read, its schemas as the compiler understands them.
 *
 * Reading a large schema takes a tenth of a second, so it is done in the thread: the engine's own only passes the text along.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isLark } from '#formats/grammars/lark.js'
import { plainEbnf } from './ebnf.js'
import type { GrammarSpec } from './grammar-spec.js'
import { larkToEbnf } from './lark.js'
import { type GrammarSchema, toGrammarSchema } from './schema/json-schema.js'
import { PatternError } from './schema/pattern-reader.js'
import { textRule } from './schema/pattern-writer.js'
import { parseJson, toNumberedTag } from './structural-tag.js'

export interface GrammarWork {
  /** Regular expressions have become EBNF. */
  readonly spec: Exclude<GrammarSpec, { readonly kind: 'regex' }>
  /** The one of a `json_schema`, those that a structural tag numbers. */
  readonly schemas: readonly GrammarSchema[]
}

/** @throws {InvalidRequestError} `unsupported_schema`: whatever the compiler would skip in a schema is refused before it starts; `invalid_grammar` for a regular expression or a grammar that cannot be kept */
export function toGrammarWork(spec: GrammarSpec): GrammarWork {
  switch (spec.kind) {
    case 'json_schema':
      return { spec, schemas: [toGrammarSchema(parseJson(spec.schema, 'JSON schema'), spec)] }
    case 'structural_tag': {
      const { tag, schemas } = toNumberedTag(
        spec.tag,
        { grammar: toEbnf, regex: (pattern) => regexToEbnf(pattern, spec) },
        spec,
      )
      return { spec: { ...spec, tag }, schemas }
    }
    case 'ebnf':
      return { spec: { ...spec, grammar: toEbnf(spec.grammar) }, schemas: [] }
    case 'regex':
      return { spec: { kind: 'ebnf', grammar: regexToEbnf(spec.pattern, spec) }, schemas: [] }
    case 'choice':
      return { spec, schemas: [] }
  }
}

const toEbnf = (grammar: string): string => (isLark(grammar) ? larkToEbnf(grammar) : plainEbnf(grammar))

function regexToEbnf(pattern: string, { reach }: { readonly reach?: number }): string {
  try {
    return `root ::= ${textRule(pattern, reach === undefined ? {} : { reach })}`
  } catch (cause) {
    if (!(cause instanceof PatternError)) throw cause
    const message = `Failed to transform regex into a grammar: ${JSON.stringify(pattern.slice(0, 100))} ${cause.message}`
    throw new InvalidRequestError('invalid_grammar', message, { cause })
  }
}
