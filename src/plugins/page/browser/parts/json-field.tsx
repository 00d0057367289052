/**
 * A field for JSON, or for any text, with what is wrong with it below it, and a way to the place that a server names.
 */
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import { placeOf } from '../data/grading.js'

export function TextField(props: {
  readonly name: string
  readonly text: string
  readonly rows: number
  readonly onText: (text: string) => void
  /** What is wrong with it, where that is a text. */
  readonly problem?: unknown
  /** JSON path of what is wrong, as `graders.a.operation`. */
  readonly path?: string | null
}): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null)
  const id = `json-${props.name.replaceAll(/\W+/g, '-')}`
  const isWrong = typeof props.problem === 'string'
  const place = props.path == null ? null : placeOf(props.text, props.path)
  return (
    <div class="field">
      <label for={id}>{props.name}</label>
      <textarea
        ref={field}
        id={id}
        class="code"
        rows={props.rows}
        spellcheck={false}
        value={props.text}
        aria-invalid={isWrong}
        aria-describedby={isWrong ? `${id}-wrong` : undefined}
        onInput={(event) => props.onText(event.currentTarget.value)}
      />
      {isWrong && (
        <p id={`${id}-wrong`} class="wrong small" role="status">
          {String(props.problem)}{' '}
          {place !== null && (
            <button
              type="button"
              class="link"
              onClick={() => {
                field.current?.focus()
                field.current?.setSelectionRange(place[0], place[1])
              }}
            >
              show it
            </button>
          )}
        </p>
      )}
    </div>
  )
}
