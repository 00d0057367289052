/**
 * The terminals of Lark's `%import common`, as regular expressions of our own.
 */

const EXPONENT = '[eE][+-]?[0-9]+'
const DECIMAL = String.raw`(?:[0-9]+\.[0-9]*|\.[0-9]+)`
const NUMBER = `(?:${DECIMAL}|[0-9]+)(?:${EXPONENT})?`
const FLOAT = `(?:[0-9]+${EXPONENT}|${DECIMAL}(?:${EXPONENT})?)`
export const COMMON_TERMINALS: ReadonlyMap<string, string> = new Map([
  ['DIGIT', '[0-9]'],
  ['HEXDIGIT', '[0-9a-fA-F]'],
  ['INT', '[0-9]+'],
  ['SIGNED_INT', '[+-]?[0-9]+'],
  ['DECIMAL', DECIMAL],
  ['FLOAT', FLOAT],
  ['SIGNED_FLOAT', `[+-]?${FLOAT}`],
  ['NUMBER', NUMBER],
  ['SIGNED_NUMBER', `[+-]?${NUMBER}`],
  ['ESCAPED_STRING', String.raw`"(?:[^"\\\n]|\\.)*"`],
  ['LCASE_LETTER', '[a-z]'],
  ['UCASE_LETTER', '[A-Z]'],
  ['LETTER', '[A-Za-z]'],
  ['WORD', '[A-Za-z]+'],
  ['CNAME', '[A-Za-z_][A-Za-z_0-9]*'],
  ['WS_INLINE', String.raw`[ \t]+`],
  ['WS', String.raw`[ \t\f\r\n]+`],
  ['CR', String.raw`\r`],
  ['LF', String.raw`\n`],
  ['NEWLINE', String.raw`(?:\r?\n)+`],
  ['SH_COMMENT', String.raw`#[^\n]*`],
  ['CPP_COMMENT', String.raw`\/\/[^\n]*`],
  ['C_COMMENT', String.raw`\/\*(?:[^*]|\*+[^*\/])*\*+\/`],
  ['SQL_COMMENT', String.raw`--[^\n]*`],
])
