/**
 * Checks finished answers against their JSON Schemas, for schemas with keywords that the grammar of generation cannot
 * hold an answer to.
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
  /** Of the answer's text; null: it may be anything. */
  readonly #schema: string | null
  readonly #parameters: ReadonlyMap<string, JsonObject>

  /** @param schema what the text of an answer is held to, beside calls */
  constructor(checker: SchemaChecker, keyId: string, request: ChatRequest, schema: GrammarSpec | null) {
    this.#checker = checker
    this.#keyId = keyId
    this.#schema = schema?.kind === 'json_schema' ? schema.schema : null
    this.#parameters = new Map(
      (request.tools ?? []).flatMap(({ function: { name, parameters } }) =>
        isJsonObject(parameters as JsonObject) ? [[name, parameters as JsonObject]] : [],
      ),
    )
  }

  /** @returns a sentence each */
  async find({ content, calls }: FinishedChoice): Promise<readonly string[]> {
    const ofText =
      calls.length > 0 || this.#schema === null || content === null
        ? []
        : await this.#checker.check(this.#keyId, content, this.#schema)
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
}
