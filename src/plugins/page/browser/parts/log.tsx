/**
 * Lines as they come. Stays at the newest until somebody scrolls up, and then says how many came; a screen reader hears a summary now and
 * then, not every line. Lines are drawn by the hundred: what was drawn stays, and what is not seen takes no layout.
 */
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { plural } from '../data/format.js'
import { CopyButton } from './copy.js'

const KEPT = 5000
const PART = 100
const SPOKEN_MS = 10_000
/** So near to the end counts as at the end, pixels. */
const NEAR = 24

export interface LogLine {
  readonly id: string
  readonly time: string
  readonly text: string
  readonly isBad?: boolean
}

export function LiveLog({ lines }: { readonly lines: readonly LogLine[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const [isFollowing, setIsFollowing] = useState(true)
  const [seen, setSeen] = useState(0)
  const [spoken, setSpoken] = useState('')
  // whole parts, so that a line stays in its own
  const first = Math.max(0, Math.ceil((lines.length - KEPT) / PART) * PART)
  const parts = Array.from({ length: Math.ceil((lines.length - first) / PART) }, (_, i) => first + i * PART)

  useLayoutEffect(() => {
    if (!isFollowing || box.current === null) return
    box.current.scrollTop = box.current.scrollHeight
    setSeen(lines.length)
  }, [lines, isFollowing])

  const count = useRef(lines.length)
  count.current = lines.length
  useEffect(() => {
    let before = count.current
    const timer = setInterval(() => {
      if (count.current > before) setSpoken(`${plural(count.current - before, 'new line')}`)
      before = count.current
    }, SPOKEN_MS)
    return () => clearInterval(timer)
  }, [])

  const missed = lines.length - seen
  return (
    <div class="stack">
      <section
        class="log"
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        tabIndex={0}
        aria-label="Log"
        onScroll={(event) => {
          const { scrollTop, clientHeight, scrollHeight } = event.currentTarget
          setIsFollowing(scrollHeight - scrollTop - clientHeight < NEAR)
        }}
      >
        {parts.map((from) => (
          <Part key={from} lines={lines} from={from} to={Math.min(lines.length, from + PART)} />
        ))}
      </section>
      <p class="row">
        <CopyButton
          text={() =>
            lines
              .slice(first)
              .map(({ time, text }) => `${time} ${text}`)
              .join('\n')
          }
          label="Copy all lines of the log"
        >
          Copy all
        </CopyButton>
        {!isFollowing && (
          <button type="button" onClick={() => setIsFollowing(true)}>
            {missed > 0 ? `${plural(missed, 'new line')} ↓` : 'To the end ↓'}
          </button>
        )}
        <span class="visually-hidden" role="status">
          {spoken}
        </span>
      </p>
    </div>
  )
}

interface PartProps {
  readonly lines: readonly LogLine[]
  readonly from: number
  readonly to: number
}

/** Lines never change once they are there: a part is drawn again only when it grows. */
function Part({ lines, from, to }: PartProps): JSX.Element {
  return useMemo(
    () => (
      <div class={to - from === PART ? 'log-part' : ''}>
        {lines.slice(from, to).map(({ id, time, text, isBad }) => (
          <p key={id} class={isBad === true ? 'wrong' : ''}>
            <time class="soft">{time}</time> {text}
          </p>
        ))}
      </div>
    ),
    [to, lines[from]],
  )
}
