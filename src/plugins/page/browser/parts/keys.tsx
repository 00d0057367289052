/**
 * Keyboard shortcuts that go to another page; `?` lists them. They are off while somebody types, and for everybody who turned
 * them off (WCAG 2.1.4).
 */
import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { go } from '../data/address.js'

const NAME = 'trainyard.keys'
/** How long `g` waits for the letter behind it. */
const PREFIX_MS = 1500

const PLACES: Readonly<Record<string, readonly [path: string, title: string]>> = {
  m: ['/', 'models'],
  j: ['/jobs', 'jobs'],
  l: ['/loops', 'loops'],
  d: ['/data', 'data'],
  t: ['/train', 'Train'],
  p: ['/play', 'Play'],
  s: ['/settings', 'settings'],
}

/** False for who turned single letters off. */
export const hasKeys = signal(localStorage.getItem(NAME) !== 'off')
const isListShown = signal(false)

export function chooseKeys(isOn: boolean): void {
  hasKeys.value = isOn
  localStorage.setItem(NAME, isOn ? 'on' : 'off')
}

/** Whether a key is for the page, and neither for a field nor for the browser. */
export function isForPage(event: KeyboardEvent): boolean {
  const isTyping =
    event.target instanceof Element && event.target.closest('input, textarea, select, [contenteditable]') !== null
  return hasKeys.value && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented
}

export function Keys(): JSX.Element | null {
  const prefixedUntil = useRef(0)
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (!isForPage(event)) return
      const place = event.timeStamp < prefixedUntil.current ? PLACES[event.key] : undefined
      prefixedUntil.current = event.key === 'g' ? event.timeStamp + PREFIX_MS : 0
      if (place !== undefined) go(place[0])
      else if (event.key === '?') isListShown.value = true
      else return
      event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  return isListShown.value ? <KeyList /> : null
}

function KeyList(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby="keys-title"
      onClose={() => {
        isListShown.value = false
      }}
    >
      <div class="stack">
        <h2 id="keys-title">Keys</h2>
        <dl class="pairs">
          {Object.entries(PLACES).map(([key, [path, title]]) => (
            <div key={path}>
              <dt>
                <kbd>g</kbd> <kbd>{key}</kbd>
              </dt>
              <dd>go to {title}</dd>
            </div>
          ))}
          <div>
            <dt>
              <kbd>j</kbd> <kbd>k</kbd> <kbd>u</kbd>
            </dt>
            <dd>next, previous, up: groups and trajectories</dd>
          </div>
          <div>
            <dt>
              <kbd>/</kbd>
            </dt>
            <dd>search models</dd>
          </div>
          <div>
            <dt>
              <kbd>?</kbd>
            </dt>
            <dd>this list</dd>
          </div>
        </dl>
        <p class="row end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </p>
      </div>
    </dialog>
  )
}
