/**
 * The tokens of an answer, coloured by their probability; the one under the pointer or the focus with what might have stood there. One
 * token is in the order of the tab key; arrows go from there.
 */
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { formatNumber } from '../../data/format.js'
import type { TokenLogprob } from '../../data/play/request.js'
import { classOf, SCALES, shownOfAnswer, styleOf } from '../../data/token-colour.js'

/** Tokens that are drawn; what is beyond is text. */
const MOST = 4000

export function AnswerTokens({
  tokens,
  shownAs,
}: {
  readonly tokens: readonly TokenLogprob[]
  /** Which probabilities they are; null: the model's. */
  readonly shownAs: string | null
}): JSX.Element {
  const [at, setAt] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const shown = tokens.slice(0, MOST)
  const move = (to: number): void => {
    const next = Math.max(0, Math.min(shown.length - 1, to))
    setAt(next)
    box.current?.querySelector<HTMLElement>(`[data-token="${next}"]`)?.focus()
  }
  const choose = (event: Event): void => {
    const token = event.target instanceof Element ? event.target.closest('[data-token]') : null
    if (token !== null) setAt(Number(token.getAttribute('data-token')))
  }
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key]
    if (step === undefined && event.key !== 'Home' && event.key !== 'End') return
    if (event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    move(event.key === 'Home' ? 0 : event.key === 'End' ? shown.length - 1 : at + (step ?? 0))
  }
  const chosen = shown[at]
  return (
    <div class="stack">
      {/* biome-ignore lint/a11y/useSemanticElements: tokens are one control that arrows move in */}
      <div
        class="answer-tokens raw"
        role="group"
        aria-label={`${shown.length} tokens: arrows go from one to the next`}
        ref={box}
        onKeyDown={onKey}
        onPointerOver={choose}
        onFocusIn={choose}
        onClick={choose}
      >
        {shown.map(({ token, bytes, logprob }, i) => {
          const { text, isMark } = shownOfAnswer(token, bytes)
          const level = classOf(Math.exp(logprob), SCALES.probability)
          const style = level === null ? '' : styleOf(level, SCALES.probability)
          return (
            // biome-ignore lint/a11y/useSemanticElements: a button is no part of a line of text that wraps
            <span
              key={i}
              class={`token ${style} ${isMark ? 'mark-token' : ''}`}
              data-token={i}
              role="button"
              tabIndex={i === at ? 0 : -1}
              aria-pressed={i === at}
              aria-label={`token ${i}: ${text.trim() === '' ? JSON.stringify(text) : text}`}
            >
              {text === '\n' ? '↵\n' : text}
            </span>
          )
        })}
        {tokens.slice(MOST).map(({ token }) => token)}
      </div>
      {shownAs !== null && <p class="soft small">Probabilities {shownAs}</p>}
      {chosen !== undefined && <Chosen at={at} token={chosen} />}
    </div>
  )
}

function Chosen({ at, token }: { readonly at: number; readonly token: TokenLogprob }): JSX.Element {
  // the sampled one stands first, whatever it is called
  const others = token.top_logprobs.slice(1)
  return (
    <div class="answer-token small" role="status">
      <p>
        token {at} <Name of={token} /> p {formatNumber(Math.exp(token.logprob))}{' '}
        <span class="soft">({formatNumber(token.logprob)})</span>
      </p>
      {others.length > 0 && (
        <p class="soft">
          instead:{' '}
          {others.map((other, i) => (
            <span key={i}>
              <Name of={other} /> {formatNumber(Math.exp(other.logprob))}{' '}
            </span>
          ))}
        </p>
      )}
    </div>
  )
}

function Name({ of }: { readonly of: Pick<TokenLogprob, 'token' | 'bytes'> }): JSX.Element {
  return <code class="raw">{shownOfAnswer(of.token, of.bytes).text.replaceAll('\n', '↵')}</code>
}
