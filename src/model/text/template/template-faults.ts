/**
 * Where in a chat template the fault lies that keeps it from being parsed or rendered: line and construct, for people.
 *
 * The parser tells no positions, so the template's tags are tried one by one; a fault of a rendering is found by the name in its
 * message. What cannot be found is null: a wrong line would be worse than none.
 */

/** A tag of a template: `{{ … }}` or `{% … %}`. */
interface Tag {
  readonly line: number
  readonly text: string
  /** Null in `{{ … }}`. */
  readonly statement: string | null
  /** The expression in it that can be parsed alone; null where there is none. */
  readonly expression: string | null
}

const knownStatements: ReadonlySet<string> = new Set([
  ...['if', 'elif', 'else', 'endif', 'for', 'endfor', 'set', 'endset', 'macro', 'endmacro', 'call', 'endcall'],
  ...['filter', 'endfilter', 'break', 'continue', 'generation', 'endgeneration', 'raw', 'endraw'],
])

/**
 * The first tag that cannot be parsed, as `line 3: {% include 'x' %}`.
 *
 * @param canParse whether a template of this one expression can be parsed
 */
export function locateParseFault(source: string, canParse: (template: string) => boolean): string | null {
  const isWrong = ({ statement, expression }: Tag): boolean =>
    (statement !== null && !knownStatements.has(statement)) || (expression !== null && !canParse(`{{ ${expression} }}`))
  return describe(tagsOf(source).find(isWrong))
}

/** The first tag with the filter, test, function or operator that a message of the interpreter names. */
export function locateRenderFault(source: string, message: string): string | null {
  const named = /(filter|test): (\w+)|operator "([^"]+)"/.exec(message)
  const called = /^"(\w+)" is .*not a function/.exec(message)?.[1]
  if (called !== undefined) {
    return describe(tagsOf(source).find(({ text }) => new RegExp(`\\b${called}\\s*\\(`).test(text)))
  }
  if (named === null) return null
  const [, kind, name = '', operator = ''] = named
  const tags = tagsOf(source)
  if (kind === 'filter') return describe(tags.find(({ text }) => new RegExp(`\\|\\s*${name}\\b`).test(text)))
  if (kind === 'test') return describe(tags.find(({ text }) => new RegExp(`\\bis\\s+(not\\s+)?${name}\\b`).test(text)))
  return describe(tags.find(({ text }) => text.includes(operator)))
}

/** A tag may be long; its beginning tells which it is. */
const SHOWN_CHARACTERS = 80

function describe(tag: Tag | undefined): string | null {
  if (tag === undefined) return null
  const text = tag.text.replace(/\s+/g, ' ')
  return `line ${tag.line}: ${text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text}`
}

/** Quoted text in a tag may hold its end. */
const tagPattern =
  /\{#[\s\S]*?#\}|\{\{-?((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!\}\})[\s\S])*?)-?\}\}|\{%-?\s*(\w+)((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!%\})[\s\S])*?)-?%\}/g

function tagsOf(source: string): Tag[] {
  const tags: Tag[] = []
  let line = 1
  let from = 0
  for (const match of source.matchAll(tagPattern)) {
    line += source.slice(from, match.index).split('\n').length - 1
    from = match.index
    const [text, printed, statement = null, rest = ''] = match
    if (text.startsWith('{#')) continue
    const expression = statement === null ? (printed ?? '') : expressionOf(statement, rest)
    tags.push({ line, text, statement, expression })
  }
  return tags
}

function expressionOf(statement: string, rest: string): string | null {
  if (statement === 'if' || statement === 'elif') return rest
  const assigned = /^\s*[\w.,\s]+?\s*=(?!=)([\s\S]+)$/.exec(rest)?.[1]
  return statement === 'set' ? (assigned ?? null) : null
}
