/**
 * What graders said of an answer: the score of each, what passed, and errors, each with its kind and its grader.
 */

import type { JSX } from 'preact'
import { formatNumber } from '../data/format.js'
import { lowerWordsOf } from '../data/words.js'

interface Found {
  readonly sub_rewards: Readonly<Record<string, number>>
  readonly passed: Readonly<Record<string, boolean>>
  readonly error_details: readonly { readonly flag: string; readonly grader: string; readonly message: string }[]
}

export function GraderSaid({ found }: { readonly found: Found }): JSX.Element {
  const { error_details: errors, passed } = found
  const parts = Object.entries(found.sub_rewards).map(([name, value]) => `${name} ${formatNumber(value)}`)
  const passes = Object.entries(passed).map(([name, isPassed]) => `${name} ${isPassed ? 'passed' : 'did not pass'}`)
  const said = [...parts, ...passes].join(' · ')
  return (
    <span>
      {errors.map(({ flag, grader, message }, i) => (
        <span key={i} class="wrong">
          {grader}: {lowerWordsOf(flag)}: {message}{' '}
        </span>
      ))}
      <span class="soft small">{said === '' && errors.length === 0 ? 'no errors' : said}</span>
    </span>
  )
}
