/**
 * Checks finished answers by other code than what holds them: against JSON Schemas, regular expressions, grammars and tags.
 *
 * One process for each check, bounded in time and memory, because anybody may send a schema. Keys take turns.
 */
import { runInNewContext } from 'node:vm'
import { RuntimeError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { append } from '#base/util/lists.js'
import { createTurns } from '#base/util/turns.js'
import { checkedPattern } from '#formats/grammars/checked-pattern.js'
import type { AnswerForm } from '#formats/grammars/match-answer.js'
import type { GrammarCheckAnswer, GrammarCheckData, SchemaCheckAnswer, SchemaCheckData } from './schema-check-main.js'

export interface SchemaChecker {
  /**
   * @param key whose answer it is
   * @param value JSON text
   * @param schema JSON text
   * @returns one sentence for each violation; one that says why there was no check, where there was none
   */
  check(key: string, value: string, schema: string): Promise<readonly string[]>
  /** As `check`, of a text that a regular expression is to match as a whole. */
  match(key: string, text: string, pattern: string): Promise<readonly string[]>
  /**
   * As `check`, of a text that is to be of a grammar or a structural tag; none of a form that is not known here.
   *
   * @param checksParts the JSON in a structural tag is checked against its schemas, too
   */
  matchForm(
    key: string,
    text: string,
    form: AnswerForm,
    options: { readonly checksParts: boolean },
  ): Promise<readonly string[]>
}

const LIMIT_MS = 10_000
/** Matching that is over in so long is done here: a process takes as long to start as a hundred of these. */
const QUICK_MS = 10
const QUICK_PATTERN = 1000
const QUICK_FORM = 10_000
const QUICK_TEXT = 20_000
const MAX_HEAP_MIB = 128
const WAITING = { what: 'checks of answers', mostWaiting: 400, mostOfOneKey: 100, atOnce: 1, spare: 1 }

/** @param options.environment of the processes */
export function createSchemaChecker(options: {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly limitMs?: number
}): SchemaChecker {
  const { environment, limitMs = LIMIT_MS } = options
  const turns = createTurns(WAITING)
  const never = new AbortController().signal

  async function run<Answer>(data: SchemaCheckData | GrammarCheckData): Promise<Answer> {
    const flags = [`--max-old-space-size=${MAX_HEAP_MIB}`]
    const child = startChild('service/processes/schema-check-main.js', { environment, flags })
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, limitMs)
    try {
      const died = (how: string): Error =>
        new RuntimeError(
          'schema_check_failed',
          isLate ? `it took longer than ${limitMs / 1000} s` : `its process ${how}`,
        )
      return await askProcess<Answer>(child, data, { died }).answer
    } finally {
      clearTimeout(timer)
      child.kill('SIGKILL')
    }
  }

  const check: SchemaChecker['check'] = async (key, value, schema) => {
    try {
      return (await turns.take(key, never, () => run<SchemaCheckAnswer>({ value, schema }))).violations
    } catch (error) {
      return [unchecked('schema', error)]
    }
  }
  const matchForm: SchemaChecker['matchForm'] = async (key, text, form, { checksParts }) => {
    let match: GrammarCheckAnswer
    try {
      const quick = await matchFormQuickly(form, text)
      match = quick === 'unknown' ? await turns.take(key, never, () => run<GrammarCheckAnswer>({ form, text })) : quick
    } catch (error) {
      return [unchecked('grammar', error)]
    }
    if (match === null) return []
    if (!match.isMatch) return [`the answer is not of the ${form.kind === 'ebnf' ? 'grammar' : 'structural tag'}`]
    const found: string[] = []
    for (const { text: json, schemas } of checksParts ? match.parts : []) {
      const all: (readonly string[])[] = []
      for (const schema of schemas) all.push(await check(key, json, stringifyExact(schema)))
      // of several that it may be of one is enough
      if (all.every((violations) => violations.length > 0)) append(found, all[0] ?? [])
    }
    return found
  }
  /** Expressions that took too long here. */
  const slow = new Set<string>()

  return {
    check,
    matchForm,
    match: async (key, text, pattern) => {
      const whole = `^(?:${pattern})$`
      const isMatch = slow.has(pattern) ? null : matchQuickly(whole, text)
      if (isMatch !== null) return isMatch ? [] : ['the answer does not match the regular expression']
      if (slow.size >= MOST_SLOW) slow.clear()
      slow.add(pattern)
      return check(key, JSON.stringify(text), JSON.stringify({ type: 'string', pattern: whole }))
    },
  }
}

const MOST_SLOW = 100

function unchecked(what: string, error: unknown): string {
  return `the answer was not checked against its ${what}: ${error instanceof Error ? error.message : error}`
}

/** As `matchAnswer`; `'unknown'` where that is not known in a few milliseconds. */
async function matchFormQuickly(form: AnswerForm, text: string): Promise<GrammarCheckAnswer | 'unknown'> {
  const size = form.kind === 'ebnf' ? form.grammar.length : form.tag.length
  if (size > QUICK_FORM || text.length > QUICK_TEXT) return 'unknown'
  // few requests have a grammar
  const { matchAnswer } = await import('#formats/grammars/match-answer.js')
  try {
    return runInNewContext('match()', { match: () => matchAnswer(form, text) }, { timeout: QUICK_MS })
  } catch {
    return 'unknown'
  }
}

/** Null where it is not known in a few milliseconds. */
function matchQuickly(pattern: string, text: string): boolean | null {
  if (pattern.length > QUICK_PATTERN || text.length > QUICK_TEXT) return null
  try {
    const whole = checkedPattern(pattern)
    // V8 ends an expression that backtracks where a script is ended
    return runInNewContext('whole.test(text)', { whole, text }, { timeout: QUICK_MS }) === true
  } catch {
    return null
  }
}
