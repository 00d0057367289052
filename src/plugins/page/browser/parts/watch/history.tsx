/**
 * Every answer to a watched prompt, newest step first; what a step says and the one before it did not is marked. Steps that say the same are
 * one row.
 */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type { ProbeAnswer } from '#contract/wire/inference/probes.js'
import { askAll } from '../../data/client.js'
import { formatCount } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { Block, Empty } from '../block.js'
import { Text } from './answer.js'

const MOST = 500

/** Answers in a row that say the same; steps between them may have none. */
interface Stretch {
  readonly from: number
  to: number
  /** Steps that answered. */
  count: number
  readonly text: string
  /** What was said before it; null where it is the first. */
  readonly before: string | null
}

export function History({ path }: { readonly path: string }): JSX.Element {
  const found = useLoad(path, (signal) => askAll<ProbeAnswer>(`${path}?order=desc`, { signal, most: MOST }), {
    topics: ['probe'],
  })
  const rows = useMemo(() => toStretches(found.data?.data ?? []), [found.data])
  return (
    <Block of={found} height="8rem">
      {({ data, hasMore }) =>
        rows.length === 0 ? (
          <Empty>No step has answered yet.</Empty>
        ) : (
          <>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
            <ol class="plain history" tabIndex={0} aria-label="Answers by step">
              {rows.map(({ from, to, count, text, before }) => (
                <li key={from} class="stack side">
                  <p class="soft small">{titleOf(from, to, count)}</p>
                  <Text text={text} beside={before} />
                </li>
              ))}
            </ol>
            {hasMore && <p class="soft">Only the newest {formatCount(data.length)} answers are shown.</p>}
          </>
        )
      }
    </Block>
  )
}

function titleOf(from: number, to: number, count: number): string {
  const first = from === 0 ? 'base model' : `step ${from}`
  if (count === 1) return first
  if (count === 2) return `${first} and step ${to}: the same`
  return `${first} to step ${to}: the same in ${count} answers`
}

/** @param answers newest step first @returns newest first */
function toStretches(answers: readonly ProbeAnswer[]): readonly Stretch[] {
  const rows: Stretch[] = []
  for (const { status, step, text } of answers.toReversed()) {
    if (status !== 'answered') continue
    const last = rows.at(-1)
    if (last !== undefined && last.text === (text ?? '')) {
      last.to = step
      last.count += 1
    } else rows.push({ from: step, to: step, count: 1, text: text ?? '', before: last?.text ?? null })
  }
  return rows.toReversed()
}
