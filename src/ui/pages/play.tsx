/**
 * `/ui/play`: one conversation with one to four models beside each other. The weights that answered are named under every answer, for a
 * column that silently were another model's would be worse than none.
 */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ServedModelList } from '#contract/wire/models.js'
import { query, setQuery } from '../data/address.js'
import { type Answer, type Message, NO_ANSWER, type Sampling, streamAnswer } from '../data/chat.js'
import { type ApiError, apiUrl, ask } from '../data/client.js'
import { toApiError, useLoad } from '../data/load.js'
import { Command, Empty } from '../parts/block.js'
import { CopyButton } from '../parts/copy.js'
import { Title } from '../parts/layout.js'
import { AnswerView, type Turn } from '../parts/turn.js'

const MOST = 4

interface Column {
  readonly id: number
  readonly model: string
  readonly turns: readonly Turn[]
}

const numberOf = (name: string, fallback: number): number => {
  const text = query.value.get(name)
  return text === null || text === '' || Number.isNaN(Number(text)) ? fallback : Number(text)
}

export function PlayPage(): JSX.Element {
  const served = useLoad('served', (signal) => ask<ServedModelList>('/v1/models', { signal }))
  const asked = query.value.getAll('m').slice(0, MOST)
  const names = asked.length > 0 ? asked : served.data?.data.slice(0, 1).map(({ id }) => id)
  const [turnsOf, setTurnsOf] = useState<Readonly<Record<number, readonly Turn[]>>>({})
  const [text, setText] = useState('')
  const [isMarked, setIsMarked] = useState(true)
  const running = useRef<AbortController | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const columns: readonly Column[] = (names ?? []).map((model, id) => ({ id, model, turns: turnsOf[id] ?? [] }))
  const system = query.value.get('system') ?? ''
  const seed = query.value.get('seed')
  const sampling: Sampling = {
    temperature: numberOf('temperature', 1),
    top_p: numberOf('top_p', 1),
    max_tokens: numberOf('max', 256),
    seed: seed === null || seed === '' || Number.isNaN(Number(seed)) ? null : Number(seed),
  }

  function stop(): void {
    running.current?.abort()
  }
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

  async function answer(column: Column, prompt: string, signal: AbortSignal): Promise<void> {
    const before = column.turns
    const show = (part: Answer, error: ApiError | null, isDone: boolean): void =>
      setTurnsOf((all) => ({ ...all, [column.id]: [...before, { prompt, answer: part, error, isDone }] }))
    let newest = NO_ANSWER
    show(newest, null, false)
    const messages: Message[] = [
      ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
      ...before.flatMap((turn): Message[] => [
        { role: 'user', content: turn.prompt },
        { role: 'assistant', content: turn.answer.text },
      ]),
      { role: 'user', content: prompt },
    ]
    try {
      const onAnswer = (part: Answer): void => {
        newest = part
        show(part, null, false)
      }
      await streamAnswer({ model: column.model, messages, sampling }, onAnswer, signal)
      show(newest, null, true)
    } catch (raw) {
      if (signal.aborted) show({ ...newest, finish: 'stopped' }, null, true)
      else show(newest, toApiError(raw), true)
    }
  }

  async function send(): Promise<void> {
    const prompt = text.trim()
    if (prompt === '' || isBusy || columns.length === 0) return
    const cancel = new AbortController()
    running.current = cancel
    setIsBusy(true)
    setText('')
    await Promise.all(columns.map((column) => answer(column, prompt, cancel.signal)))
    setIsBusy(false)
  }

  /** The last message comes back to be changed, and its answers go. */
  function editLast(): void {
    const last = columns[0]?.turns.at(-1)?.prompt
    if (last === undefined || isBusy) return
    setText(last)
    setTurnsOf((all) => Object.fromEntries(Object.entries(all).map(([id, turns]) => [id, turns.slice(0, -1)])))
  }

  function choose(id: number, model: string): void {
    setQuery({ m: columns.map((column) => (column.id === id ? model : column.model)) })
    setTurnsOf((all) => ({ ...all, [id]: [] }))
  }

  function remove(id: number): void {
    setQuery({ m: columns.filter((column) => column.id !== id).map(({ model }) => model) })
    setTurnsOf(Object.fromEntries(columns.filter((column) => column.id !== id).map(({ turns }, i) => [i, turns])))
  }

  const choices = served.data?.data.map(({ id }) => id) ?? []
  const hasTurns = columns.some(({ turns }) => turns.length > 0)
  return (
    <>
      <Title text="Play">
        <p class="actions">
          <button
            type="button"
            disabled={columns.length >= MOST || isBusy}
            onClick={() => setQuery({ m: [...columns.map(({ model }) => model), columns.at(-1)?.model ?? ''] })}
          >
            Add a column
          </button>
          <button type="button" disabled={!hasTurns || isBusy} onClick={() => setTurnsOf({})}>
            Clear
          </button>
          <CopyButton text={location.origin + location.pathname + location.search} label="Copy link to this setting">
            Copy link
          </CopyButton>
        </p>
      </Title>
      <SamplingFields sampling={sampling} system={system} />
      <datalist id="served">
        {choices.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <div class="columns" style={{ '--columns': String(Math.max(columns.length, 1)) }}>
        {columns.map((column) => (
          <section class="card column" key={column.id} aria-label={`Column ${column.id + 1}`}>
            <div class="row column-head">
              <input
                aria-label="Model"
                list="served"
                value={column.model}
                disabled={isBusy}
                spellcheck={false}
                onChange={(event) => choose(column.id, event.currentTarget.value.trim())}
              />
              {columns.length > 1 && (
                <button
                  type="button"
                  aria-label={`Take away column ${column.id + 1}`}
                  disabled={isBusy}
                  onClick={() => remove(column.id)}
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
                isMarkdown={isMarked}
              />
            ))}
          </section>
        ))}
      </div>
      <form
        class="card say"
        onSubmit={(event) => {
          event.preventDefault()
          void send()
        }}
      >
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
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send()
            if (event.key === 'ArrowUp' && text === '') editLast()
          }}
        />
        <p class="row">
          <label class="row">
            <input type="checkbox" checked={isMarked} onChange={(event) => setIsMarked(event.currentTarget.checked)} />
            Markdown
          </label>
          <span class="soft small keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd> sends · <kbd>Esc</kbd> stops · <kbd>↑</kbd> edits the last
          </span>
          <span class="push">
            {isBusy ? (
              <button type="button" onClick={stop}>
                Stop
              </button>
            ) : (
              <button type="submit" class="primary" disabled={text.trim() === '' || columns.length === 0}>
                {columns.length > 1 ? `Send to all ${columns.length}` : 'Send'}
              </button>
            )}
          </span>
        </p>
      </form>
      <AsRequest
        model={columns[0]?.model ?? ''}
        prompt={columns[0]?.turns.at(-1)?.prompt ?? text}
        sampling={sampling}
        system={system}
      />
    </>
  )
}

/** The last message to the first column, for a terminal. */
function AsRequest(props: {
  readonly model: string
  readonly prompt: string
  readonly sampling: Sampling
  readonly system: string
}): JSX.Element {
  const { model, prompt, system, sampling } = props
  const messages = [...(system === '' ? [] : [{ role: 'system', content: system }]), { role: 'user', content: prompt }]
  const { seed, ...others } = sampling
  const body = JSON.stringify({ model, messages, ...others, ...(seed === null ? {} : { seed }) })
  const quoted = (value: string) => `'${value.replaceAll("'", "'\\''")}'`
  const url = new URL(apiUrl('/v1/chat/completions'), location.href).href
  return (
    <details class="copy-as">
      <summary>The same in a terminal</summary>
      <div class="stack">
        <Command
          text={`curl -H "Authorization: Bearer $TRAINYARD_API_KEY" -H 'Content-Type: application/json' -d ${quoted(body)} ${quoted(url)}`}
        />
      </div>
    </details>
  )
}

function SamplingFields(props: { readonly sampling: Sampling; readonly system: string }): JSX.Element {
  const { sampling, system } = props
  const field = (title: string, name: string, value: number | null, step: string) => (
    <label>
      {title}
      <input
        type="number"
        step={step}
        min="0"
        value={value ?? ''}
        placeholder="random"
        onChange={(event) => setQuery({ [name]: event.currentTarget.value === '' ? null : event.currentTarget.value })}
      />
    </label>
  )
  return (
    <details class="card" open={system !== ''}>
      <summary>
        System prompt and sampler{' '}
        <span class="soft small">
          temperature {sampling.temperature} · top_p {sampling.top_p} · at most {sampling.max_tokens} tokens · seed{' '}
          {sampling.seed ?? 'random'}
        </span>
      </summary>
      <div class="stack sampler">
        <label class="field">
          System prompt
          <textarea
            rows={2}
            value={system}
            onChange={(event) =>
              setQuery({ system: event.currentTarget.value === '' ? null : event.currentTarget.value })
            }
          />
        </label>
        <div class="row fields">
          {field('Temperature', 'temperature', sampling.temperature, '0.1')}
          {field('top_p', 'top_p', sampling.top_p, '0.05')}
          {field('Most tokens', 'max', sampling.max_tokens, '1')}
          {field('Seed', 'seed', sampling.seed, '1')}
        </div>
      </div>
    </details>
  )
}
