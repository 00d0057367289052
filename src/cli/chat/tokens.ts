/**
 * How sure the model was of each token, as text: coloured by probability, the unsure ones with their number.
 */
import type { Sink } from '../terminal/io.js'
import { sanitizeForTerminal } from '../terminal/sanitize.js'
import type { TokenLogprob } from './session.js'

/** Tokens above it are certain enough to be left without a number. */
const SURE = 0.9
const LIKELY = 0.5

/** One line of tokens: `The answer is four‹0.31›`. */
export function renderTokens(tokens: readonly TokenLogprob[], sink: Sink): string {
  const [open, close] = sink.isUnicode ? ['‹', '›'] : ['<', '>']
  return tokens
    .map(({ token, bytes, logprob }) => {
      const probability = Math.exp(logprob)
      const text = sanitizeForTerminal(bytes === null ? token : Buffer.from(bytes).toString('utf8'))
      if (probability >= SURE) return sink.chalk.green(text)
      const shown = `${text}${open}${probability.toFixed(2)}${close}`
      return probability >= LIKELY ? sink.chalk.yellow(shown) : sink.chalk.red(shown)
    })
    .join('')
}
