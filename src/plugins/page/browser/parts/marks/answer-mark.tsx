/**
 * The mark on an answer of Play. Nothing else keeps the answer: a mark that is changed is made anew.
 */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Model } from '#contract/wire/models.js'
import type { Mark } from '#contract/wire/training/marks.js'
import { hrefOf } from '../../data/address.js'
import { ask } from '../../data/client.js'
import { useGone } from '../../data/load.js'
import { findOwner, type Judgement, marksApi } from '../../data/marks.js'
import { modelPath } from '../../data/match.js'
import type { Message } from '../../data/play/request.js'
import { MarkForm } from './mark-form.js'

/** An answer, and what is known of how it came about. */
export interface Markable {
  /** Of the answer, then of the others: the first that is none of a base model keeps the mark. */
  readonly fingerprints: readonly string[]
  readonly messages: readonly Message[]
  readonly tools: unknown
  readonly answer: Message
  /** Other columns' answers to the same. */
  readonly others: readonly { readonly title: string; readonly answer: Message }[]
}

interface Kept {
  readonly model: Model
  readonly id: string
  readonly said: Judgement
}

export function AnswerMark({ fingerprints, messages, tools, answer, others }: Markable): JSX.Element {
  const [kept, setKept] = useState<Kept | null>(null)
  const gone = useGone()
  const forget = (mark: Kept): Promise<unknown> =>
    ask(marksApi(mark.model.id, `/${encodeURIComponent(mark.id)}`), { method: 'DELETE' })

  async function save(said: Judgement): Promise<void> {
    const { model, step } = await findOwner(fingerprints, gone)
    const json = {
      mark: said.mark,
      edited: said.edited,
      note: said.note,
      messages,
      answer,
      other: said.pair === null ? null : others[Number(said.pair)]?.answer,
      tools,
      step,
    }
    const { id } = await ask<Mark>(marksApi(model.id), { json })
    if (kept !== null) await forget(kept)
    if (!gone.aborted) setKept({ model, id, said })
  }

  return (
    <MarkForm
      mark={kept?.said ?? null}
      answer={answer.content ?? ''}
      others={others.map(({ title }, i) => ({ value: String(i), title }))}
      onSave={save}
      onDelete={async () => {
        if (kept !== null) await forget(kept)
        if (!gone.aborted) setKept(null)
      }}
    >
      {kept !== null && (
        <a class="small" href={hrefOf(modelPath(kept.model, '/marks'))}>
          kept for {kept.model.name}
        </a>
      )}
    </MarkForm>
  )
}
