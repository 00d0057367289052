/**
 * Graders to begin with: each runs as it stands.
 */
import type { JSX } from 'preact'
import { EXAMPLES, toText } from '../data/grading.js'

export function BeginWith({ onText }: { readonly onText: (text: string) => void }): JSX.Element {
  return (
    <label class="field">
      Begin with{' '}
      <select value="" onChange={(event) => onText(toText(EXAMPLES[Number(event.currentTarget.value)]?.[1] ?? {}))}>
        <option value="" disabled>
          an example…
        </option>
        {EXAMPLES.map(([title], i) => (
          <option key={title} value={i}>
            {title}
          </option>
        ))}
      </select>
    </label>
  )
}
