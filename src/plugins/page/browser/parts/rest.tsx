/**
 * What a list does not show is said.
 */
import type { JSX } from 'preact'
import { formatCount } from '../data/format.js'

/** @param props.elsewhere where the rest is: a command, or how to find it */
export function Rest(props: {
  readonly of: { readonly data: readonly unknown[]; readonly has_more: boolean } | null
  readonly elsewhere: string
}): JSX.Element | null {
  if (props.of?.has_more !== true) return null
  return (
    <p class="soft small">
      {formatCount(props.of.data.length)} shown, there are more: {props.elsewhere}
    </p>
  )
}
