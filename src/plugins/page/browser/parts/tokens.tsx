/**
 * The tokens of a sequence, coloured by a number of theirs; the one that is chosen with all that is known of it.
 *
 * They are read in parts as they come near, and what is far away is a space of its height again, so that 64,000 stay usable. One token
 * is in the order of the tab key; arrows go from there.
 */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { RolloutScores, RolloutTokens } from '#contract/wire/training/rollouts.js'
import { query, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { formatNumber } from '../data/format.js'
import { useGone, useLoad } from '../data/load.js'
import { type Colour, classOf, drawnOf, numberOf, SCALES, shownOf, styleOf } from '../data/token-colour.js'
import { Failure } from './block.js'

/** Tokens of one request. */
const PART = 512
/** How far beyond the window parts are made. */
const NEAR = '900px'
/** Height of a part before it was seen. */
const GUESSED_PX = 560

export interface TokensProps {
  /** The API's path of the trajectory. */
  readonly path: string
  readonly sequence: number
  readonly length: number
  readonly colour: Colour
  /** Step of the checkpoint that scores them too; null: none. */
  readonly under: string | null
  readonly hasSpaces: boolean
}

/** Asks the API for what stands at a path. */
type Read = <T>(path: string) => Promise<T>

/**
 * Answers by their paths, each asked for once: the token that is chosen is one of a part, and scores are a whole prefill. Nobody who
 * waits for one ends it for the others.
 */
function useAnswers(): Read {
  const answers = useRef(new Map<string, Promise<unknown>>()).current
  const gone = useGone()
  return <T,>(path: string): Promise<T> => {
    const known = answers.get(path) as Promise<T> | undefined
    if (known !== undefined) return known
    const asked = ask<T>(path, { signal: gone })
    answers.set(path, asked)
    // what failed is asked for again
    asked.catch(() => answers.delete(path))
    return asked
  }
}

export function Tokens(props: TokensProps): JSX.Element {
  const { length } = props
  const read = useAnswers()
  const { tokens: firstPart } = usePart({ ...props, read }, 0, true)
  const at = chosenOf(length, Math.max(0, firstPart.data?.is_trained.indexOf(true) ?? 0))
  const box = useRef<HTMLDivElement>(null)
  const [isMoving, setIsMoving] = useState(false)
  const move = (to: number): void => {
    setIsMoving(true)
    setQuery({ at: String(Math.max(0, Math.min(length - 1, to))) })
  }
  useEffect(() => {
    if (!isMoving) return
    // the part of it may not be there yet: it focuses its token when it is
    box.current?.querySelector<HTMLElement>(`[data-token="${at}"]`)?.focus()
  }, [at, isMoving])
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, PageDown: PART, PageUp: -PART }[event.key]
    if (step === undefined && event.key !== 'Home' && event.key !== 'End') return
    if (event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    move(event.key === 'Home' ? 0 : event.key === 'End' ? length - 1 : at + (step ?? 0))
  }
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: tokens are one control that arrows move in */}
      <div
        class="tokens card"
        role="group"
        aria-label={`${length} tokens: arrows go from one to the next`}
        ref={box}
        onKeyDown={onKey}
        onClick={(event) => {
          const token = event.target instanceof Element ? event.target.closest('[data-token]') : null
          if (token !== null) setQuery({ at: token.getAttribute('data-token') })
        }}
      >
        {Array.from({ length: Math.ceil(length / PART) }, (_, part) => (
          <Part
            key={part}
            {...props}
            read={read}
            from={part * PART}
            chosen={at}
            isFocused={isMoving && Math.floor(at / PART) === part}
          />
        ))}
      </div>
      <Detail {...props} read={read} at={at} />
    </>
  )
}

/** The token of the address, else the first that was sampled. */
function chosenOf(length: number, first: number): number {
  const at = Number(query.value.get('at') ?? first)
  return Number.isInteger(at) && at >= 0 && at < length ? at : first
}

interface Reads {
  readonly read: Read
}

/** Tokens and their scores from `from` on. */
function usePart({ path, sequence, under, read }: TokensProps & Reads, from: number, isWanted: boolean) {
  const range = `sequence=${sequence}&from=${from}&to=${from + PART}`
  const plain = `${path}/tokens?${range}`
  const tokens = useLoad(isWanted ? plain : null, () => read<RolloutTokens>(plain), { keepsOld: false })
  const scored = `${path}/scores?${range}&step=${encodeURIComponent(under ?? '')}`
  const scores = useLoad(isWanted && under !== null ? scored : null, () => read<RolloutScores>(scored), {
    keepsOld: false,
  })
  return { tokens, scores }
}

function Part(
  props: TokensProps & Reads & { readonly from: number; readonly chosen: number; readonly isFocused: boolean },
): JSX.Element {
  const { from, length, chosen, isFocused } = props
  const box = useRef<HTMLDivElement>(null)
  const heightPx = useRef(GUESSED_PX)
  const [isNear, setIsNear] = useState(false)
  const isShown = isNear || isFocused
  const { tokens, scores } = usePart(props, from, isShown)
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const observer = new IntersectionObserver(
      (entries) => {
        const near = entries.at(-1)?.isIntersecting === true
        if (!near && element.childElementCount > 0) heightPx.current = element.offsetHeight
        setIsNear(near)
      },
      { rootMargin: NEAR },
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useEffect(() => {
    if (isFocused && tokens.data !== null) box.current?.querySelector<HTMLElement>(`[data-token="${chosen}"]`)?.focus()
  }, [isFocused, tokens.data])
  const isWhole = length <= PART
  const data = isShown ? tokens.data : null
  return (
    <div ref={box} class="part" style={data === null && !isWhole ? { minHeight: `${heightPx.current}px` } : {}}>
      {tokens.error !== null && <Failure error={tokens.error} onRetry={tokens.reload} />}
      {scores.error !== null && isShown && <Failure error={scores.error} onRetry={scores.reload} />}
      {data !== null && <Spans {...props} tokens={data} scores={scores.data} />}
    </div>
  )
}

function Spans(
  props: TokensProps & {
    readonly tokens: RolloutTokens
    readonly scores: RolloutScores | null
    readonly chosen: number
  },
): JSX.Element {
  const { tokens, scores, colour, chosen, hasSpaces } = props
  return (
    <>
      {tokens.ids.map((_, i) => {
        const at = tokens.from + i
        const { text, isMark } = shownOf(tokens, i)
        const isTrained = tokens.is_trained[i] === true
        const value = numberOf(tokens, i, colour, scores?.logprob[i] ?? null)
        const level = colour === 'none' ? null : classOf(value, SCALES[colour])
        const classes = [
          'token',
          isTrained ? '' : 'untrained',
          isMark ? 'mark-token' : '',
          tokens.is_clipped[i] === true ? 'clipped' : '',
          level === null || colour === 'none' ? '' : styleOf(level, SCALES[colour]),
        ]
        const shown = hasSpaces ? text.replaceAll(' ', '·') : text
        return (
          // biome-ignore lint/a11y/useSemanticElements: a button is no part of a line of text that wraps
          <span
            key={at}
            class={classes.filter((name) => name !== '').join(' ')}
            data-token={at}
            role="button"
            tabIndex={at === chosen ? 0 : -1}
            aria-pressed={at === chosen}
            aria-label={`token ${at}: ${text.trim() === '' ? JSON.stringify(text) : text}`}
          >
            {text === '\n' ? '↵\n' : shown}
          </span>
        )
      })}
    </>
  )
}

/** All that is known of the chosen token. */
function Detail(props: TokensProps & Reads & { readonly at: number }): JSX.Element | null {
  const { at, under } = props
  const from = Math.floor(at / PART) * PART
  const { tokens, scores } = usePart(props, from, true)
  const data = tokens.data
  if (data === null) return null
  const i = at - data.from
  const { text } = shownOf(data, i)
  const logprob = (value: number | null | undefined): string =>
    value === null || value === undefined ? '–' : `${formatNumber(value)} (p ${formatNumber(Math.exp(value))})`
  const isTrained = data.is_trained[i] === true
  const drawn = drawnOf(data, i)
  const scored = `Step ${scores.data?.step ?? under}${drawn === null ? '' : ', of the raw logits'}`
  const facts: readonly (readonly [string, string])[] = [
    ...(isTrained
      ? ([
          ['Sampler', logprob(data.sampler_logprob[i])],
          ...(data.old_logprob[i] === data.sampler_logprob[i]
            ? []
            : ([['Ratio taken against', logprob(data.old_logprob[i])]] as const)),
          ['Learner', logprob(data.learner_logprob[i])],
          ['Ratio', `${formatNumber(data.ratio[i])}${data.is_clipped[i] === true ? ', clipped' : ''}`],
          ['Entropy', formatNumber(data.entropy[i])],
          ...(data.reference_logprob[i] == null ? [] : ([['Reference', logprob(data.reference_logprob[i])]] as const)),
          ...(drawn === null ? [] : ([['Drawn at', drawn]] as const)),
          ['Advantage', formatNumber(data.advantage)],
        ] as const)
      : ([['Trains', 'no: it was given, not sampled']] as const)),
    ...(under === null ? [] : [[scored, logprob(scores.data?.logprob[i])] as const]),
  ]
  return (
    <section class="card token-detail" aria-label="The chosen token" aria-live="polite">
      <h3>
        Token {at} <code class="raw">{text}</code> <span class="soft small">id {data.ids[i]}</span>
      </h3>
      <dl class="figures">
        {facts.map(([title, value]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

/** What colours mean. */
export function Legend({ colour }: { readonly colour: Colour }): JSX.Element | null {
  if (colour === 'none') return null
  const { title, bounds, unit } = SCALES[colour]
  const names = [`< ${bounds[0]}`, ...bounds.slice(1).map((high, i) => `${bounds[i]} … ${high}`), `≥ ${bounds[3]}`]
  return (
    <p class="legend small soft">
      {title}
      {names.map((name, level) => (
        <span key={name} class={`token ${styleOf(level, SCALES[colour])}`}>
          {name.replaceAll('-', '−')}
          {level === 4 ? unit : ''}
        </span>
      ))}
      <span class="token untrained">not trained</span>
      {colour === 'ratio' && <span class="token clipped">clipped</span>}
    </p>
  )
}
