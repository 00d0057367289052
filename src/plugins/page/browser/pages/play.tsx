/**
 * `/ui/play`: one conversation with one to four models beside each other. The weights that answered are named under every answer, for a
 * column that silently were another model's would be worse than none.
 */

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ServedModelList } from '#contract/wire/models.js'
import { query, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { useLoad } from '../data/load.js'
import { streamAnswer } from '../data/play/chat.js'
import {
  type Answer,
  type ChatBody,
  type Message,
  NO_ANSWER,
  type PlaySettings,
  problemOf,
  type Sampling,
  toBody,
  toMessages,
} from '../data/play/request.js'
import { ownSamplings, playSettings, setSetting } from '../data/play/settings.js'
import { Empty } from '../parts/block.js'
import { CopyButton } from '../parts/copy.js'
import { Title } from '../parts/layout.js'
import type { Markable } from '../parts/marks/answer-mark.js'
import { AsProgram } from '../parts/play/as-program.js'
import { PlaySettingsCard } from '../parts/play/play-settings.js'
import { AnswerView, type Turn } from '../parts/play/turn.js'

const MOST = 4

interface Column {
  readonly id: number
  readonly model: string
  readonly turns: readonly Turn[]
}

/** Conversations with several models, side by side. */
interface Conversations {
  readonly columns: readonly Column[]
  /** How each model asks to be sampled, by its name, as far as that is known. */
  readonly own: Readonly<Record<string, Sampling>>
  readonly isBusy: boolean
  say(to: readonly Column[], asked: readonly Message[]): void
  stop(): void
  clear(): void
  /** Takes the last message and its answers back. @returns the message; null where there is none */
  takeBack(): string | null
  choose(id: number, model: string): void
  remove(id: number): void
}

function useConversations(models: readonly string[], settings: PlaySettings): Conversations {
  const [turnsOf, setTurnsOf] = useState<Readonly<Record<number, readonly Turn[]>>>({})
  const running = useRef<AbortController | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const columns: readonly Column[] = models.map((model, id) => ({ id, model, turns: turnsOf[id] ?? [] }))
  const own = useLoad(`sampling of ${models.join(' ')}`, (signal) => ownSamplings(models, signal)).data ?? {}
  const stop = (): void => running.current?.abort()
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') stop()
    }
    document.addEventListener('keydown', onKey)
    return () => {
      document.removeEventListener('keydown', onKey)
      stop()
    }
  }, [])

  async function answer(column: Column, asked: readonly Message[], signal: AbortSignal): Promise<void> {
    const { model, turns: before } = column
    const sampled = own[model] ?? (await ownSamplings([model], signal))[model]
    const body = toBody(model, [...toMessages(before), ...asked], settings, sampled)
    const sent = { asked, body, question: JSON.stringify([body.messages, body['tools'] ?? null]) }
    const show = (part: Answer, error: ApiError | null, isDone: boolean): void =>
      setTurnsOf((all) => ({ ...all, [column.id]: [...before, { ...sent, answer: part, error, isDone }] }))
    let newest = NO_ANSWER
    show(newest, null, false)
    try {
      const onAnswer = (part: Answer): void => {
        newest = part
        show(part, null, false)
      }
      await streamAnswer(body, onAnswer, signal)
      show(newest, null, true)
    } catch (raw) {
      if (signal.aborted) show({ ...newest, finish: 'stopped' }, null, true)
      else show(newest, toApiError(raw), true)
    }
  }

  async function say(to: readonly Column[], asked: readonly Message[]): Promise<void> {
    const cancel = new AbortController()
    running.current = cancel
    setIsBusy(true)
    await Promise.all(to.map((column) => answer(column, asked, cancel.signal)))
    setIsBusy(false)
  }

  return {
    columns,
    own,
    isBusy,
    stop,
    say: (to, asked) => void say(to, asked),
    clear: () => setTurnsOf({}),
    takeBack: () => {
      const turns = columns[0]?.turns ?? []
      const last = turns.flatMap(({ asked }) => asked).findLast(({ role }) => role === 'user')?.content
      if (last === undefined || last === null || isBusy) return null
      setTurnsOf((all) => Object.fromEntries(Object.entries(all).map(([id, said]) => [id, withoutLast(said)])))
      return last
    },
    choose: (id, model) => {
      setQuery({ m: columns.map((column) => (column.id === id ? model : column.model)) })
      setTurnsOf((all) => ({ ...all, [id]: [] }))
    },
    remove: (id) => {
      setQuery({ m: columns.filter((column) => column.id !== id).map(({ model }) => model) })
      setTurnsOf(Object.fromEntries(columns.filter((column) => column.id !== id).map(({ turns }, i) => [i, turns])))
    },
  }
}

export function PlayPage(): JSX.Element {
  const served = useLoad('served', (signal) => ask<ServedModelList>('/v1/models', { signal }))
  const asked = query.value.getAll('m').slice(0, MOST)
  const settings = playSettings()
  const talk = useConversations(
    asked.length > 0 ? asked : (served.data?.data.slice(0, 1).map(({ id }) => id) ?? []),
    settings,
  )
  const [text, setText] = useState('')
  const [isMarked, setIsMarked] = useState(true)
  const { columns } = talk
  const problem = problemOf(settings)
  const own = talk.own[columns[0]?.model ?? ''] ?? {}
  const body = problem === null ? lastBody(columns[0], text, settings, own) : null
  return (
    <>
      <Title text="Play">
        <PlayActions talk={talk} />
      </Title>
      <PlaySettingsCard settings={settings} own={own} />
      <datalist id="served">
        {served.data?.data.map(({ id }) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <div class="columns" style={{ '--columns': String(Math.max(columns.length, 1)) }}>
        {columns.map((column) => (
          <ColumnView
            key={column.id}
            column={column}
            talk={talk}
            isMarkdown={isMarked && settings.format === 'text'}
            isSound={problem === null}
          />
        ))}
      </div>
      <SayForm
        talk={talk}
        settings={settings}
        isSound={problem === null}
        {...{ text, setText, isMarked, setIsMarked }}
      />
      {body !== null && <AsProgram body={body} own={own} />}
    </>
  )
}

function PlayActions({ talk: { columns, isBusy, clear } }: { readonly talk: Conversations }): JSX.Element {
  const hasTurns = columns.some(({ turns }) => turns.length > 0)
  return (
    <p class="actions">
      <button
        type="button"
        disabled={columns.length >= MOST || isBusy}
        onClick={() => setQuery({ m: [...columns.map(({ model }) => model), columns.at(-1)?.model ?? ''] })}
      >
        Add a column
      </button>
      <button type="button" disabled={!hasTurns || isBusy} onClick={clear}>
        Clear
      </button>
      <CopyButton text={location.origin + location.pathname + location.search} label="Copy link to this setting">
        Copy link
      </CopyButton>
    </p>
  )
}

interface ColumnProps {
  readonly column: Column
  readonly talk: Conversations
  readonly isMarkdown: boolean
  /** Whether something can be sent with these settings. */
  readonly isSound: boolean
}

function ColumnView({ column, talk, isMarkdown, isSound }: ColumnProps): JSX.Element {
  const { columns, isBusy } = talk
  return (
    <section class="card column" aria-label={`Column ${column.id + 1}`}>
      <div class="row column-head">
        <input
          aria-label="Model"
          list="served"
          value={column.model}
          disabled={isBusy}
          spellcheck={false}
          onChange={(event) => talk.choose(column.id, event.currentTarget.value.trim())}
        />
        {columns.length > 1 && (
          <button
            type="button"
            aria-label={`Take away column ${column.id + 1}`}
            disabled={isBusy}
            onClick={() => talk.remove(column.id)}
          >
            ×
          </button>
        )}
      </div>
      {column.turns.length === 0 && <Empty>Say something, and it answers here.</Empty>}
      {column.turns.map((turn, n) => (
        <AnswerView
          key={n}
          turn={turn}
          other={column.id === 0 ? null : (columns[0]?.turns[n]?.answer.text ?? null)}
          markable={markableOf(columns, column, n)}
          isMarkdown={isMarkdown}
          onResults={
            isBusy || !isSound || n < column.turns.length - 1 ? null : (results) => talk.say([column], results)
          }
        />
      ))}
    </section>
  )
}

/** What is said by a click, where nothing was said yet. */
const OPENINGS = ['Hello! Who are you?', 'I am sad today.', 'What can you do?']

interface SayProps {
  readonly talk: Conversations
  readonly settings: PlaySettings
  readonly isSound: boolean
  readonly text: string
  readonly setText: (text: string) => void
  readonly isMarked: boolean
  readonly setIsMarked: (isMarked: boolean) => void
}

function SayForm({ talk, settings, isSound, text, setText, isMarked, setIsMarked }: SayProps): JSX.Element {
  const { columns, isBusy } = talk
  const canSend = text.trim() !== '' && isSound && columns.length > 0

  function send(): void {
    if (!canSend || isBusy) return
    setText('')
    open(text.trim())
  }
  const open = (content: string): void => talk.say(columns, [{ role: 'user', content }])
  const isSilent = text === '' && isSound && columns.length > 0 && columns.every(({ turns }) => turns.length === 0)

  /** The last message comes back to be changed, and its answers go. */
  function editLast(): void {
    const last = talk.takeBack()
    if (last !== null) setText(last)
  }

  return (
    <form
      class="card say"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      {isSilent && (
        <p class="row">
          {OPENINGS.map((each) => (
            <button key={each} type="button" onClick={() => open(each)}>
              {each}
            </button>
          ))}
        </p>
      )}
      <label class="visually-hidden" for="message">
        Message
      </label>
      <textarea
        id="message"
        rows={3}
        placeholder="Message"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send()
          if (event.key === 'ArrowUp' && text === '') editLast()
        }}
      />
      <p class="row">
        <label class="row">
          <input type="checkbox" checked={isMarked} onChange={(event) => setIsMarked(event.currentTarget.checked)} />
          Markdown
        </label>
        <label class="row">
          <input
            type="checkbox"
            checked={settings.hasLogprobs}
            onChange={(event) => setSetting('logprobs', event.currentTarget.checked ? '1' : '')}
          />
          Probability of each token
        </label>
        <span class="soft small keys">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd> sends · <kbd>Esc</kbd> stops · <kbd>↑</kbd> edits the last
        </span>
        <span class="push">
          {isBusy ? (
            <button type="button" onClick={talk.stop}>
              Stop
            </button>
          ) : (
            <button type="submit" class="primary" disabled={!canSend}>
              {columns.length > 1 ? `Send to all ${columns.length}` : 'Send'}
            </button>
          )}
        </span>
      </p>
    </form>
  )
}

/** What a mark of an answer keeps, once it is there; of columns that were asked the same, the other answers. */
function markableOf(columns: readonly Column[], column: Column, n: number): Markable | null {
  const turn = column.turns[n]
  const answer = turn === undefined ? undefined : messageOf(turn)
  if (turn?.isDone !== true || turn.error !== null || answer === undefined) return null
  const others = columns.flatMap((each) => {
    const own = each.turns[n]
    if (each.id === column.id || own?.isDone !== true || own.question !== turn.question) return []
    const said = messageOf(own)
    if (said === undefined || isSame(said, answer)) return []
    return [{ title: `column ${each.id + 1}, ${each.model}`, answer: said }]
  })
  const beside = columns.filter(({ id }) => id !== column.id).map(({ turns }) => turns[n]?.answer.fingerprint)
  const fingerprints = [turn.answer.fingerprint, ...beside].flatMap((text) => text ?? [])
  return { fingerprints, messages: turn.body.messages, tools: turn.body['tools'] ?? null, answer, others }
}

/** The message of the assistant; undefined where it said nothing. */
function messageOf(turn: Turn): Message | undefined {
  return toMessages([{ ...turn, asked: [] }])[0]
}

function isSame(a: Message, b: Message): boolean {
  return a.content === b.content && JSON.stringify(a) === JSON.stringify(b)
}

/** The conversation before its last message of a user, and what came of it. */
function withoutLast(turns: readonly Turn[]): readonly Turn[] {
  return turns.slice(
    0,
    Math.max(
      0,
      turns.findLastIndex(({ asked }) => asked[0]?.role === 'user'),
    ),
  )
}

/** The request that the first column made last, else the one it would make. */
function lastBody(column: Column | undefined, text: string, settings: PlaySettings, own: Sampling): ChatBody | null {
  if (column === undefined) return null
  const last = column.turns.at(-1)
  const asked = last?.asked ?? [{ role: 'user' as const, content: text }]
  return toBody(column.model, [...toMessages(column.turns.slice(0, -1)), ...asked], settings, own)
}
