/**
 * Checks finished answers by other code than what holds them: against their JSON Schemas, where these have keywords that a grammar
 * cannot hold an answer to, and always against a regular expression, the choices, a grammar or a structural tag.
 */

import { stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import type { GrammarSpec } from '#inference/host/protocol.js'
import type { SchemaChecker } from '#service/processes/schema-checker.js'

/** Names of a request's parts that answers are not held to as a whole: the field and the keyword (`response_format.uniqueItems`). */
export function unheldFields(field: string, unheld: readonly string[]): readonly string[] {
  return [...new Set(unheld.map((place) => `${field}.${place.slice(place.lastIndexOf('/') + 1)}`))]
}

/** An answer of one choice. */
export interface FinishedChoice {
  readonly content: string | null
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

export class ViolationFinder {
  readonly #checker: SchemaChecker
  readonly #keyId: string
  /** What the answer's text is held to; null: it may be anything. */
  readonly #spec: GrammarSpec | null
  readonly #checksParts: boolean
  readonly #parameters: ReadonlyMap<string, JsonObject>

  /**
   * @param options.spec what the text of an answer is held to, beside calls
   * @param options.hasUnheld some keywords of its schemas do not hold it
   */
  constructor(
    checker: SchemaChecker,
    keyId: string,
    request: ChatRequest,
    { spec, hasUnheld }: { readonly spec: GrammarSpec | null; readonly hasUnheld: boolean },
  ) {
    this.#checksParts = hasUnheld
    this.#checker = checker
    this.#keyId = keyId
    this.#spec = spec
    this.#parameters = new Map(
      (request.tools ?? []).flatMap(({ function: { name, parameters } }) =>
        isJsonObject(parameters as JsonObject) ? [[name, parameters as JsonObject]] : [],
      ),
    )
  }

  /** @returns a sentence each */
  async find({ content, calls }: FinishedChoice): Promise<readonly string[]> {
    const ofText = calls.length > 0 || content === null ? [] : await this.#findInText(content)
    const ofCalls: string[] = []
    for (const { name, arguments: given } of calls) {
      const schema = this.#parameters.get(name)
      if (schema === undefined) continue
      const found = await this.#checker.check(this.#keyId, given, stringifyExact(schema))
      append(
        ofCalls,
        found.map((violation) => `${name}: ${violation}`),
      )
    }
    return [...ofText, ...ofCalls]
  }

  async #findInText(content: string): Promise<readonly string[]> {
    switch (this.#spec?.kind) {
      case 'json_schema':
        return this.#checker.check(this.#keyId, content, this.#spec.schema)
      case 'regex':
        return this.#checker.match(this.#keyId, content, this.#spec.pattern)
      case 'ebnf':
      case 'structural_tag':
        // marks of calls may be control tokens, which the text does not show; what is called is checked by itself
        if (this.#spec.kind === 'structural_tag' && this.#spec.isOfCalls === true) return []
        return this.#checker.matchForm(this.#keyId, content, this.#spec, { checksParts: this.#checksParts })
      case 'choice':
        return this.#spec.choices.includes(content) ? [] : ['the answer is none of the choices']
      default:
        return []
    }
  }
}

/** Whether answers are checked though all of it can be held to: where that costs next to nothing. */
export function isAlwaysChecked(spec: GrammarSpec | null): boolean {
  return spec !== null && spec.kind !== 'json_schema' && !(spec.kind === 'structural_tag' && spec.isOfCalls === true)
}
