/**
 * A template's text as @huggingface/jinja can read it, where its lexer differs from Jinja's:
 *
 * - line ends are one thing to Jinja, whatever a file was written with: what is trimmed hangs on it
 * - `{% generation %}` of transformers marks assistant text for masks and prints nothing
 * - `{% raw %}` is unknown, and so are `{%+` and `+%}`, which keep white space
 * - a backslash before a character that needs none ends the template (`'\d'`); Python keeps both characters
 */

export function readableSource(source: string): string {
  return withPlainEscapes(withRawText(source.replace(/\r\n?/g, '\n')))
    .replace(/\{%-?\s*(?:end)?generation\s*-?%\}/g, (tag) =>
      tag.replace(/(?:end)?generation/, (word) => (word === 'generation' ? 'if true' : 'endif')),
    )
    .replace(/\{%\+/g, '{{""}}{%')
    .replace(/\+%\}/g, '%}{{""}}')
}

const rawPattern =
  /\{#[\s\S]*?#\}|(^[ \t]*)?\{%([-+]?)\s*raw\s*(-?)%\}([\s\S]*?)\{%([-+]?)\s*endraw\s*(?:(-)%\}|(\+)%\}|%\}(\n?))/gm

/** Raw text becomes a printed string, which is not read for tags. */
function withRawText(source: string): string {
  return source.replace(rawPattern, (whole, indent = '', before, after, text, end, isTrimmed) => {
    if (whole.startsWith('{#')) return whole
    let body = String(text)
    if (after === '-') body = body.trimStart()
    if (end === '-') body = body.trimEnd()
    else if (end === '') body = body.replace(/(?<=\n)[ \t]*$/, '')
    const escaped = body.replace(/[^\w ]/g, (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    const kept = before === '+' ? indent : ''
    return `${kept}{{${before === '-' ? '-' : ''}"${escaped}"${isTrimmed === '-' ? '-' : ''}}}`
  })
}

const tagOrComment =
  /\{#[\s\S]*?#\}|\{\{(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!\}\})[\s\S])*?\}\}|\{%(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!%\})[\s\S])*?%\}/g
const literal = /"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'/g

function withPlainEscapes(source: string): string {
  if (!source.includes('\\')) return source
  return source.replace(tagOrComment, (tag) =>
    tag.startsWith('{#')
      ? tag
      : tag.replace(literal, (text) => text.replace(/\\([\s\S])/g, (pair, next: string) => plainEscape(pair, next))),
  )
}

function plainEscape(pair: string, next: string): string {
  if (next === '\n') return ''
  if (next === 'a') return '\\x07'
  if (next === '0') return '\\x00'
  return /[ntrbfv'"\\xu]/.test(next) ? pair : `\\${pair}`
}
