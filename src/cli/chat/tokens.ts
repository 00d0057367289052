/**
 * How sure the model was of each token, as text: coloured by probability, the unsure ones with their number.
 */
import type { ChatChoice } from '#contract/wire/chat-completions.js'
import { shownAs, toSampled } from '#contract/wire/sampling-words.js'
import type { Sink } from '../terminal/io.js'
import { sanitizeForTerminal } from '../terminal/sanitize.js'
import { displayWidth } from '../terminal/table.js'
import type { TokenLogprob } from './session.js'

/** Tokens above it are certain enough to be left without a number. */
const SURE = 0.9
const LIKELY = 0.5

/** The tokens of an answer, and which probabilities they are where those are not simply the model's. */
export function renderAnswerTokens(
  { logprobs, sampling }: Pick<ChatChoice, 'logprobs' | 'sampling'>,
  sink: Sink,
): string {
  const shown = shownAs(sampling)
  const note = shown === null ? '' : `\n${sink.chalk.dim(`probabilities ${shown}`)}`
  return `${renderTokens(toSampled(logprobs?.content ?? [], sampling), sink)}${note}`
}

/** Tokens one after the other, `The answer is four‹0.31›`, in lines that are broken between words. */
export function renderTokens(tokens: readonly TokenLogprob[], sink: Sink): string {
  let rendered = ''
  let column = 0
  for (const word of toWords(tokens.map((token) => renderToken(token, sink)))) {
    const plain = word.map((each) => each.plain).join('')
    const painted = word.map((each) => each.painted).join('')
    const isBroken = column > 0 && column + displayWidth(plain) > sink.width
    // the blank before the word is what the break takes the place of
    rendered += isBroken ? `\n${painted.replace(' ', '')}` : painted
    const lineStart = plain.lastIndexOf('\n') + 1
    column = (isBroken || lineStart > 0 ? 0 : column) + displayWidth(plain.slice(lineStart))
  }
  return rendered
}

interface RenderedToken {
  readonly plain: string
  readonly painted: string
}

function renderToken({ token, bytes, logprob }: TokenLogprob, { chalk, isUnicode }: Sink): RenderedToken {
  const probability = Math.exp(logprob)
  const text = sanitizeForTerminal(bytes === null ? token : Buffer.from(bytes).toString('utf8'))
  if (probability >= SURE) return { plain: text, painted: chalk.green(text) }
  const [open, close] = isUnicode ? ['‹', '›'] : ['<', '>']
  const plain = `${text}${open}${probability.toFixed(2)}${close}`
  return { plain, painted: probability >= LIKELY ? chalk.yellow(plain) : chalk.red(plain) }
}

/** A word begins with a token that begins with a blank. */
function toWords(tokens: readonly RenderedToken[]): readonly (readonly RenderedToken[])[] {
  const words: RenderedToken[][] = []
  for (const token of tokens) {
    if (token.plain.startsWith(' ') || words.length === 0) words.push([token])
    else words.at(-1)?.push(token)
  }
  return words
}
