/**
 * What is worth saying about data that trains: fields that nothing reads, older forms that were converted, answers of nothing,
 * text that is not what trains. Each kind is counted, and the first place of it named.
 *
 * Readers of rows and of trajectories note; a job and its plan say the sentences. Knows nothing of either.
 */

/** What is noted, by what befell a row or an answer. */
export type NoteKind =
  /** A field that has no effect, by name: `score_chosen`, `messages[].audio`. */
  | 'unread'
  /** An older form that was read as a newer one: `function_call as tool_calls`. */
  | 'converted'
  /** An assistant turn that trains and says nothing. */
  | 'empty_answer'
  /** An answer that holds a token which the base model cannot tell from others, by what the token says. */
  | 'lost_token'
  /** A text with half of a surrogate pair. */
  | 'lone_surrogate'
  /** A sampled answer whose text is not that of its token ids. */
  | 'edited_answer'

/** Takes notes. @param place for people: `line 3`, `trajectory_groups[0].trajectories[2]` */
export interface DataNotes {
  add(kind: NoteKind, place: string, name?: string): void
  /** One sentence a kind, in the order above; none for none. */
  sentences(): string[]
}

interface Noted {
  count: number
  readonly first: string
}

/** Names told of one kind; the others are counted. */
const SHOWN_NAMES = 20
/** Names remembered: rows may have any. */
const MAX_NAMES = 1000
const MAX_NAME_LENGTH = 60

/** No notes so far. */
export function createDataNotes(): DataNotes {
  const noted = new Map<NoteKind, Map<string, Noted>>()

  function sayNames(kind: NoteKind, start: string): string[] {
    const names = [...(noted.get(kind) ?? [])]
    if (names.length === 0) return []
    const shown = names.slice(0, SHOWN_NAMES).map(([name, { count, first }]) => `${name} (${placed(count, first)})`)
    const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : ''
    return [`${start}: ${shown.join(', ')}${more}`]
  }

  function sayCount(kind: NoteKind, one: string, several: string): string[] {
    const found = noted.get(kind)?.get('')
    if (found === undefined) return []
    const { count, first } = found
    return [`${count} ${count === 1 ? one : several} (${count === 1 ? '' : 'first '}${first})`]
  }

  return {
    add(kind, place, name = '') {
      const names = noted.get(kind) ?? new Map<string, Noted>()
      noted.set(kind, names)
      const short = name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name
      const known = names.get(short)
      if (known !== undefined) known.count += 1
      else if (names.size < MAX_NAMES) names.set(short, { count: 1, first: place })
    },
    sentences: () => [
      ...sayNames('unread', 'fields that nothing reads'),
      ...sayNames('converted', 'older forms were converted'),
      ...sayNames(
        'lost_token',
        'answers hold what the base model can neither read nor write, whatever it is shown, for its weights do not tell these tokens from others',
      ),
      ...sayCount(
        'empty_answer',
        'assistant turn is empty and trains nothing but its end',
        'assistant turns are empty and train nothing but their ends',
      ),
      ...sayCount(
        'lone_surrogate',
        'text has half of a surrogate pair (an escape such as \\ud83d alone), which is read as U+FFFD',
        'texts have half of a surrogate pair (an escape such as \\ud83d alone), which is read as U+FFFD',
      ),
      ...sayCount(
        'edited_answer',
        'answer says something else than its token ids spell; the token ids train',
        'answers say something else than their token ids spell; the token ids train',
      ),
    ],
  }
}

/** What is said of the rows of a job, those it is measured on last. */
export function notesOfRows(notes: readonly string[], validation: readonly string[] = []): string[] {
  return [...notes, ...validation.map((note) => `validation rows: ${note}`)]
}

function placed(count: number, first: string): string {
  return count === 1 ? first : `${count} times, first ${first}`
}
