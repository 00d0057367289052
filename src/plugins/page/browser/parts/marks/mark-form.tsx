/**
 * What a reader thinks of one answer: good or bad with one click; behind a fold what it should have said, another answer to compare it
 * with, and a note.
 */

import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { MAX_NOTE } from '#contract/wire/training/mark-words.js'
import { type ApiError, toApiError } from '../../data/api-error.js'
import { useGone } from '../../data/load.js'
import type { Judgement } from '../../data/marks.js'
import { missingScope } from '../../data/session.js'

const NOTHING = { edited: null, note: null, pair: null } as const
const WORDS = { good: 'Good', bad: 'Bad' } as const

export function MarkForm(props: {
  /** What is there; null: no mark. */
  readonly mark: Judgement | null
  /** The text that an edit begins with. */
  readonly answer: string
  /** Answers it may be compared with. */
  readonly others: readonly { readonly value: string; readonly title: string }[]
  readonly onSave: (judgement: Judgement) => Promise<void>
  readonly onDelete: () => Promise<void>
  /** Said behind the buttons. */
  readonly children?: ComponentChildren
}): JSX.Element {
  const { mark, answer, others, onSave, onDelete } = props
  const [draft, setDraft] = useState<Omit<Judgement, 'mark'>>(mark ?? NOTHING)
  const [isBusy, setIsBusy] = useState(false)
  const [problem, setProblem] = useState<ApiError | null>(null)
  const gone = useGone()
  const missing = missingScope('write')

  async function run(work: () => Promise<void>): Promise<void> {
    setIsBusy(true)
    setProblem(null)
    try {
      await work()
    } catch (raw) {
      if (!gone.aborted) setProblem(toApiError(raw))
    }
    if (!gone.aborted) setIsBusy(false)
  }
  const save = (word: Judgement['mark']): void => {
    // a good answer needs no other
    const said = { ...draft, mark: word, edited: word === 'good' ? null : draft.edited }
    setDraft(said)
    void run(() => onSave(said))
  }

  return (
    <div class="stack mark-form">
      <p class="row">
        {(['good', 'bad'] as const).map((word) => (
          <button
            key={word}
            type="button"
            class={`mark-${word}`}
            aria-pressed={mark?.mark === word}
            disabled={isBusy || missing !== null}
            title={missing ?? undefined}
            onClick={() => save(word)}
          >
            {WORDS[word]}
          </button>
        ))}
        {mark !== null && (
          <button
            type="button"
            class="link small"
            disabled={isBusy || missing !== null}
            onClick={() =>
              void run(async () => {
                await onDelete()
                if (!gone.aborted) setDraft(NOTHING)
              })
            }
          >
            Take the mark away
          </button>
        )}
        {props.children}
      </p>
      <details>
        <summary class="small">Edit, compare, note {mark?.edited != null && <span class="tag">edited</span>}</summary>
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault()
            save(draft.edited !== null ? 'bad' : (mark?.mark ?? 'good'))
          }}
        >
          <label class="field">
            What it should have said
            <textarea
              rows={4}
              value={draft.edited ?? answer}
              onInput={(event) => {
                const text = event.currentTarget.value
                setDraft({ ...draft, edited: text === answer || text.trim() === '' ? null : text })
              }}
            />
          </label>
          {others.length > 0 && (
            <label class="field">
              Compare with: worse than a good one, better than a bad one
              <select
                value={draft.pair ?? ''}
                onChange={(event) => setDraft({ ...draft, pair: event.currentTarget.value || null })}
              >
                <option value="">nothing</option>
                {others.map(({ value, title }) => (
                  <option key={value} value={value}>
                    {title}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label class="field">
            Note
            <input
              value={draft.note ?? ''}
              maxLength={MAX_NOTE}
              onInput={(event) => setDraft({ ...draft, note: event.currentTarget.value || null })}
            />
          </label>
          <p class="row">
            <button type="submit" disabled={isBusy || missing !== null} title={missing ?? undefined}>
              {draft.edited !== null ? 'Save as bad, with the edit' : `Save as ${mark?.mark ?? 'good'}`}
            </button>
          </p>
        </form>
      </details>
      {problem !== null && (
        <p class="wrong" role="alert">
          {problem.message} {problem.hint}
        </p>
      )}
    </div>
  )
}
