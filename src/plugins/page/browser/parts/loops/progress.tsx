/**
 * How far a loop is: steps that ended of all.
 */
import type { JSX } from 'preact'
import { formatCount } from '../../data/format.js'
import type { Loop } from '../../data/loops.js'

export function LoopProgress({ loop }: { readonly loop: Loop }): JSX.Element {
  const text = `${formatCount(loop.step)} of ${formatCount(loop.steps)} steps`
  return (
    <span class="progress">
      <progress aria-label={text} max={loop.steps} value={loop.step} />
      <span class="soft small">{text}</span>
    </span>
  )
}
