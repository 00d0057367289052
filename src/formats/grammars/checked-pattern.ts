/**
 * Regular expressions as finished answers are checked against them: by JavaScript's own engine, which knows nothing of grammars.
 *
 * Answers are held to more spellings than its flag `u` takes (`src/docs/reference/api.md`): those are respelled.
 */

/** Signs whose escapes the flag `u` takes. */
const SIGNS = '^$\\.*+?()[]{}|/'
const FLAGS = /^((?:\^|\\A|\(\?:)*)\(\?([ims]+)\)/

/** @throws {SyntaxError} for what JavaScript cannot read in any spelling */
export function checkedPattern(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u')
  } catch {
    // read again, as other languages spell it
  }
  const [whole = '', before = '', flags = ''] = FLAGS.exec(pattern) ?? []
  const source = respelled(before + pattern.slice(whole.length))
  try {
    return new RegExp(source, `u${flags}`)
  } catch {
    // braces and brackets that stand for themselves
    return new RegExp(source, flags)
  }
}

function respelled(pattern: string): string {
  let isInClass = false
  return pattern.replace(/\(\?P</g, '(?<').replace(/\\([\s\S])|[[\]]/gu, (found, escaped?: string) => {
    if (escaped === undefined) {
      isInClass = found === '['
      return found
    }
    if (!isInClass && escaped === 'A') return '^'
    if (!isInClass && /[Zz]/.test(escaped)) return '$'
    const isKept = /[A-Za-z0-9]/.test(escaped) || SIGNS.includes(escaped) || (isInClass && escaped === '-')
    return isKept ? found : escaped
  })
}
