/**
 * A command line in words, as a shell splits it, without anything else that a shell does: no variable, no pattern, no pipe.
 */
import { InvalidRequestError } from '#base/errors/errors.js'

/** @throws {InvalidRequestError} `invalid_command` for a quote that is not closed */
export function splitWords(line: string): readonly string[] {
  const words: string[] = []
  let [word, quote, isWord]: [string, string, boolean] = ['', '', false]
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at] ?? ''
    if (quote !== '' && letter === quote) quote = ''
    else if (letter === '\\' && quote !== "'" && at + 1 < line.length) {
      at += 1
      word += line[at]
      isWord = true
    } else if (quote !== '') word += letter
    else if (letter === '"' || letter === "'") {
      quote = letter
      isWord = true
    } else if (/\s/.test(letter)) {
      if (isWord) words.push(word)
      word = ''
      isWord = false
    } else {
      word += letter
      isWord = true
    }
  }
  if (quote !== '')
    throw new InvalidRequestError('invalid_command', `the ${quote} in the command ${line} is not closed`)
  return isWord ? [...words, word] : words
}
